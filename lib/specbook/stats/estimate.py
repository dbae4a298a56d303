"""What a statistic is handed on as: the value, its interval, and what n counts."""

from typing import Literal

from specbook.config.schema import Frozen


class Estimate(Frozen):
    """A number, its interval, and what n counts."""

    value: float
    low: float | None
    high: float | None
    n: int
    unit_of_n: str
    """Plural: `restarts`, `prompts`."""
    prompts: int | None = None
    """Distinct prompts that the interval covers beside `n`; None where it holds them fixed."""
    level: float = 0.95
    method: Literal["student-t", "prompts-and-restarts", "wilson", "poisson", "none"]

    @property
    def counted(self) -> str:
        """`5 restarts`, or `5 restarts × 12 prompts`."""
        drawn = f"{self.n} {self.unit_of_n.removesuffix('s') if self.n == 1 else self.unit_of_n}"
        return drawn if self.prompts is None else f"{drawn} × {self.prompts} prompts"

    def span(self, unit: str = "", digits: int = 2) -> str:
        """`2.31x [2.20, 2.44]` for unit `x`; says so where there is no interval."""
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}f}{unit} (no interval)"
        return f"{self.value:.{digits}f}{unit} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def format(self, unit: str = "", digits: int = 2) -> str:
        """`2.31x [2.20, 2.44], n=5 restarts` for unit `x`; see `span`."""
        return f"{self.span(unit, digits)}, n={self.counted}"
