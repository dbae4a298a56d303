"""What tokens cost: dollars per million from a rate, a price and a utilisation. Prices come with their
source.
"""

import datetime

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from specbook import paths
from specbook.config import Frozen
from specbook.errors import ConfigError

SECONDS_PER_HOUR = 3600.0


class Price(Frozen):
    """What an hour of a machine costs, who says so, and since when."""

    name: str
    """Instance type and how it is bought."""
    usd_per_hour: float = Field(gt=0)
    """Of the whole instance."""
    accelerators: int = Field(ge=0)
    """Devices in the instance; 0 for a CPU host."""
    source: str = Field(min_length=1)
    date: datetime.date
    """Day the source was last read, prices move; `note` says where the source itself is vaguer."""
    note: str = ""


def load_prices() -> dict[str, Price]:
    """The entries of `params/prices.yaml`, by name.

    Raises:
        ConfigError: if the file is missing, malformed, or an entry lacks its source or date.
    """
    path = paths.params_dir() / "prices.yaml"
    try:
        rows = TypeAdapter(list[Price]).validate_python(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    found = {row.name: row for row in rows}
    if len(found) < len(rows):
        raise ConfigError(f"{path} names a machine twice: {sorted(row.name for row in rows)}")
    return found


def hourly_price(name: str | None, usd_per_hour: float | None = None) -> float:
    """Dollars per hour: what the caller states, else the listed price of `name`.

    Raises:
        ConfigError: if neither is known. No price is ever assumed, not even for a common CPU host.
    """
    if usd_per_hour is not None:
        return usd_per_hour
    prices = load_prices()
    if name not in prices:
        raise ConfigError(f"price unknown for {name!r}: set --usd-per-hour, or use one of {sorted(prices)}")
    return prices[name].usd_per_hour


def usd_per_million_tokens(
    output_tokens_per_s: float, usd_per_hour: float, utilisation: float = 1.0
) -> float:
    """Dollars per million output tokens.

    Args:
        output_tokens_per_s: of the machine that the price buys, while it is busy; prompt tokens ride along.
        usd_per_hour: price of that machine.
        utilisation: share of paid time it is busy, in (0, 1]; 1 is the cheapest case, not the usual one.

    Raises:
        ValueError: if an argument is not positive, or utilisation exceeds 1.
    """
    if output_tokens_per_s <= 0 or usd_per_hour <= 0 or not 0 < utilisation <= 1:
        raise ValueError(
            "need positive values and utilisation <= 1, got "
            f"{output_tokens_per_s=}, {usd_per_hour=}, {utilisation=}"
        )
    return usd_per_hour / (output_tokens_per_s * utilisation * SECONDS_PER_HOUR) * 1e6
