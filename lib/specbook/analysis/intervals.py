"""What intervals say of two estimates, or of an estimate and a value: which is larger, if that is shown."""

from typing import Literal

from specbook.stats.estimate import Estimate

Side = Literal["below", "above", "within"]


def compare(one: Estimate, other: Estimate) -> Side | None:
    """Whether the interval of `one` lies beyond that of `other`, or they overlap; None where one has none."""
    if None in (one.low, one.high, other.low, other.high):
        return None
    if one.high < other.low:
        return "below"
    return "above" if one.low > other.high else "within"


def side(one: Estimate, value: float = 1.0) -> Side | None:
    """Where the interval of an estimate lies of `value`, or that it holds it; None without an interval."""
    if one.low is None or one.high is None:
        return None
    return "below" if one.high < value else "above" if one.low > value else "within"
