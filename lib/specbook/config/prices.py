"""Prices with their source and date, from `params/prices.yaml`: machines by the hour, APIs by the token."""

import datetime
from typing import Literal, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from specbook import paths
from specbook.config.schema import Frozen
from specbook.config.yaml_files import read_as
from specbook.errors import ConfigError
from specbook.suggestions import near

Purchase = Literal["on demand", "spot", "reserved", "capacity block", "not stated"]


class Sourced(Frozen):
    """Who says so, and since when."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str = Field(min_length=1)
    source: str = Field(pattern=r"\S")
    date: datetime.date
    """Day that the source names, or on which it was copied; `note` says where the source itself is vaguer."""
    note: str = ""


class Price(Sourced):
    """What an hour of a machine costs."""

    usd_per_hour: float = Field(gt=0)
    """Dollars an hour for the whole instance."""
    accelerators: int = Field(ge=0)
    """Devices in the instance; 0 for a CPU host."""
    device: str = Field(min_length=1)
    """What it computes on, e.g. `H100`; equal for all ways to buy the same."""
    purchase: Purchase
    """How it is bought. Reserved and capacity blocks are paid for whether they are used or not."""

    def machines_for(self, devices: int) -> int:
        """How many of it hold so many devices."""
        return -(-devices // self.accelerators) if self.accelerators else 1


class ApiPrice(Sourced):
    """What a hosted model costs per million tokens; a name that could not be verified has no price."""

    host: str
    model: str
    """Equal for all hosts of the same weights."""
    verified: bool = True
    input_usd_per_million: float | None = Field(default=None, ge=0)
    output_usd_per_million: float | None = Field(default=None, gt=0)
    characters_per_token: float | None = Field(default=None, gt=0)
    """The maker's rule of thumb for English; None where the tokenizer is the served model's own."""
    characters_source: str = ""

    @model_validator(mode="after")
    def _priced_exactly_if_verified(self) -> Self:
        priced = self.input_usd_per_million is not None and self.output_usd_per_million is not None
        if priced != self.verified:
            raise ValueError(f"{self.name}: a verified name has both prices, and only a verified one has any")
        if (self.characters_per_token is None) != (not self.characters_source.strip()):
            raise ValueError(f"{self.name}: characters_per_token and characters_source go together")
        return self


class Prices(Frozen):
    """The whole file."""

    machines: tuple[Price, ...]
    apis: tuple[ApiPrice, ...]


Entry = TypeVar("Entry", bound=Sourced)


def load() -> Prices:
    """Every price of `params/prices.yaml`.

    Raises:
        ConfigError: if the file is missing, malformed, names a thing twice, or an entry lacks source or date.
    """
    path = paths.params_dir() / "prices.yaml"
    prices = read_as(path, Prices)
    for entries in (prices.machines, prices.apis):
        names = sorted(entry.name for entry in entries)
        if len(set(names)) < len(names):
            raise ConfigError(f"{path} names an entry twice: {', '.join(names)}")
    return prices


def machine(name: str) -> Price:
    """The machine of that name; ConfigError, naming the near match, if there is none: no price is assumed."""
    return _named(name, load().machines)


def api(name: str) -> ApiPrice:
    """The API of that name; ConfigError, naming the near match, if there is none."""
    return _named(name, load().apis)


def _named(name: str, entries: tuple[Entry, ...]) -> Entry:
    by_name = {entry.name: entry for entry in entries}
    if name not in by_name:
        raise ConfigError(f"price unknown for {name!r}{near(name, by_name)}: or set --usd-per-hour")
    return by_name[name]
