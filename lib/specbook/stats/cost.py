"""What tokens cost: dollars per million from a rate, a price and a utilisation. Pure arithmetic.

Two bills are told apart. By *use*: one pays for the busy time only (utilisation 1), as on demand and spot
allow with a server that is turned off when idle. By *reservation*: one pays for every hour, and idle ones
make each token dearer.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from specbook.stats.estimate import Estimate

SECONDS_PER_HOUR = 3600.0


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


def interval(output_tokens_per_s: Estimate, usd_per_hour: float, utilisation: float = 1.0) -> Estimate:
    """`usd_per_million_tokens` of a measured rate; the slowest rate costs most.

    The price is taken as exact: what it may be instead is a question for `tornado`.
    """
    return output_tokens_per_s.through(lambda rate: usd_per_million_tokens(rate, usd_per_hour, utilisation))


class Split(NamedTuple):
    """One bill, shared out over what was read and what was written."""

    input_usd_per_million: float
    output_usd_per_million: float


def split_usd_per_million_tokens(
    input_tokens_per_s: float, output_tokens_per_s: float, usd_per_hour: float, input_share: float
) -> Split:
    """Dollars per million input and output tokens that together pay for the machine, always busy.

    `input_share` is the part of its time that goes into reading prompts, in [0, 1).

    Raises:
        ValueError: if an argument is out of range.
    """
    if not 0 <= input_share < 1:
        raise ValueError(f"need an input share in [0, 1), got {input_share}")
    reading = usd_per_million_tokens(input_tokens_per_s, usd_per_hour)
    writing = usd_per_million_tokens(output_tokens_per_s, usd_per_hour)
    return Split(reading * input_share, writing * (1 - input_share))


def api_usd_per_million_output(
    input_usd_per_million: float, output_usd_per_million: float, input_per_output: float
) -> float:
    """An API's whole bill per million output tokens: what a machine's own cost is compared with.

    From its list prices, and the input tokens of that traffic per output token.

    Raises:
        ValueError: if an argument is negative.
    """
    if min(input_usd_per_million, output_usd_per_million, input_per_output) < 0:
        raise ValueError(
            f"need values >= 0, got {input_usd_per_million=}, {output_usd_per_million=}, {input_per_output=}"
        )
    return output_usd_per_million + input_per_output * input_usd_per_million


def saving(speedup: Estimate) -> Estimate:
    """Share of the bill that a speed-up saves, 1 - 1 / speed-up, with its interval; below 0 it is a cost."""
    return speedup.through(lambda times: 1 - 1 / times)


def break_even_utilisation(output_tokens_per_s: float, usd_per_hour: float, usd_per_million: float) -> float:
    """The utilisation from which a machine is cheaper than `usd_per_million` elsewhere; above 1 it never is.

    Raises:
        ValueError: if an argument is not positive.
    """
    if usd_per_million <= 0:
        raise ValueError(f"need a positive price to hold it against, got {usd_per_million}")
    return usd_per_million_tokens(output_tokens_per_s, usd_per_hour) / usd_per_million


class Bar(NamedTuple):
    """What one assumption does to a cost when it alone is changed."""

    name: str
    low: float
    """The assumption's lower end, and `at_low` the cost there."""
    high: float
    at_low: float
    at_high: float


def tornado(
    cost: Callable[..., float], base: Mapping[str, float], ranges: Mapping[str, tuple[float, float]]
) -> list[Bar]:
    """One bar per assumption in `ranges`, its (low, high), the others as in `base`; the widest first.

    `cost` takes the names in `base` as keywords.

    Raises:
        ValueError: if a range does not name an assumption of `base`, or does not enclose its value.
    """
    bars = []
    for name, (low, high) in ranges.items():
        if name not in base or not low <= base[name] <= high:
            raise ValueError(f"the range of {name!r}, {low} to {high}, does not enclose {base.get(name)}")
        ends = [cost(**{**base, name: end}) for end in (low, high)]
        bars.append(Bar(name, low, high, *ends))
    return sorted(bars, key=lambda bar: abs(bar.at_high - bar.at_low), reverse=True)
