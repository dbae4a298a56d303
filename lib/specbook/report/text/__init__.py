"""What figures and tables show, in words: chapters' answers. Here: numbers and names in a sentence."""

from collections.abc import Mapping, Sequence, Sized

from specbook.stats.estimate import Estimate
from specbook.suggestions import listed


def not_measured(parts: Mapping[str, Sized]) -> str:
    """Which parts of a chapter have no record, as Markdown; empty where all have one."""
    lacking = [name for name, measured in parts.items() if not len(measured)]
    return f"**Not measured yet:** {listed(lacking)}." if lacking else ""


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 domain`, `3 domains`."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def percent(share: float, digits: int = 0) -> str:
    """`95 %`."""
    return f"{100 * share:.{digits}f} %"


def interval(estimate: Estimate) -> str:
    """`95 % interval 2.20 to 2.44, n=5 restarts`, or `no interval, n=2 restarts`."""
    if estimate.low is None or estimate.high is None:
        return f"no interval, n={estimate.counted}"
    return f"95 % interval {estimate.low:.2f} to {estimate.high:.2f}, n={estimate.counted}"


def ends(values: Sequence[float], form: str = "{:.2f}") -> str:
    """`1.20 to 3.40`, or the one value."""
    return " to ".join(dict.fromkeys([form.format(min(values)), form.format(max(values))]))
