"""How remarks put numbers and names into a sentence."""

from collections.abc import Iterable, Sequence

from specbook.stats.estimate import Estimate


def listed(names: Iterable[object]) -> str:
    """`json, math and code`; nothing twice."""
    found = list(dict.fromkeys(map(str, names)))
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


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


def moved(found: Estimate) -> str:
    """A change of seconds: `+9.1 ms [8.0, 10]`, or that it has no interval."""
    sign = "+" if found.value >= 0 else "−"
    value = f"{sign}{milliseconds(abs(found.value))}"
    if found.low is None or found.high is None:
        return f"{value} (no interval)"
    ends = (f"{1e3 * end:.{0 if abs(end) >= 0.01 else 1}f}" for end in (found.low, found.high))
    return f"{value} [{', '.join(ends)}]"


def ends(values: Sequence[float], form: str = "{:.2f}") -> str:
    """`1.20 to 3.40`, or the one value."""
    return " to ".join(dict.fromkeys([form.format(min(values)), form.format(max(values))]))
