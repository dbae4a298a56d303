"""What figures and tables show, in words: a module per chapter. Here: numbers and names in a sentence."""

from collections.abc import Sequence

from specbook.stats.estimate import Estimate


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 domain`, `3 domains`."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def of(part: int, whole: int, one: str) -> str:
    """`all 4 domains`, `none of 4 domains`, `1 of 4 domains`, `the one domain`, `no domain`."""
    if whole == 1:
        return f"the one {one}" if part else f"no {one}"
    return f"{ {0: 'none of', whole: 'all'}.get(part, f'{part} of') } {whole} {one}s"


def percent(share: float, digits: int = 0) -> str:
    """`95 %`."""
    return f"{100 * share:.{digits}f} %"


def milliseconds(seconds: float) -> str:
    """`7.5 ms`, `63 ms`."""
    return f"{1e3 * seconds:.{0 if abs(seconds) >= 0.01 else 1}f} ms"


def change(seconds: Estimate) -> str:
    """A change of seconds: `+9.1 ms [8.0, 10]`, or that it has no interval."""
    value = f"{'+' if seconds.value >= 0 else '−'}{milliseconds(abs(seconds.value))}"
    if seconds.low is None or seconds.high is None:
        return f"{value} (no interval)"
    ends = (milliseconds(end).removesuffix(" ms") for end in (seconds.low, seconds.high))
    return f"{value} [{', '.join(ends)}]"


def interval(estimate: Estimate) -> str:
    """`95 % interval 2.20 to 2.44, n=5 restarts`, or `no interval, n=2 restarts`."""
    if estimate.low is None or estimate.high is None:
        return f"no interval, n={estimate.counted}"
    return f"95 % interval {estimate.low:.2f} to {estimate.high:.2f}, n={estimate.counted}"


def ends(values: Sequence[float], form: str = "{:.2f}") -> str:
    """`1.20 to 3.40`, or the one value."""
    return " to ".join(dict.fromkeys([form.format(min(values)), form.format(max(values))]))
