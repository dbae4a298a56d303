"""What a statistic is handed on as: the value, its interval, and what n counts."""

from typing import Literal

from specbook.config import Frozen


class Quantile(Frozen):
    """A percentile with a distribution-free interval, in the unit of its samples."""

    value: float
    n: int
    """Samples it was taken from."""
    enough: bool
    """`stats.enough_for(q, n)`; where it is False the value is marked, or not shown."""
    ci_low: float | None
    """An order statistic; None where even the smallest sample does not bound the quantile."""
    ci_high: float | None


class Estimate(Frozen):
    """A number, its interval, and what n counts."""

    value: float
    low: float | None
    high: float | None
    n: int
    unit_of_n: str
    """Plural: `restarts`, `requests`, `prompts`."""
    level: float = 0.95
    method: Literal["bootstrap-t", "student-t", "wilson", "none"]

    def format(self, unit: str = "", digits: int = 2) -> str:
        """`2.31x [2.20, 2.44], n=5 restarts` for unit `x`; says so where there is no interval."""
        count = f"n={self.n} {self.unit_of_n.removesuffix('s') if self.n == 1 else self.unit_of_n}"
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}f}{unit} (no interval), {count}"
        return f"{self.value:.{digits}f}{unit} [{self.low:.{digits}f}, {self.high:.{digits}f}], {count}"
