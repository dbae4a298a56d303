"""What a statistic is handed on as: the value, its interval, and what n counts; and shares, with theirs.

Source: Wilson 1927 (doi:10.1080/01621459.1927.10502953).
"""

import math
from collections.abc import Callable
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from specbook.config.schema import Frozen

Side = Literal["below", "above", "within"]
LEVEL = 0.95
"""Of an interval, unless another is said."""


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
    level: float = LEVEL
    method: Literal["student-t", "welch-t", "prompts-and-restarts", "wilson", "poisson", "none"]

    def through(self, function: Callable[[float], float]) -> Self:
        """The estimate of a `function` of the number, one that rises everywhere or falls everywhere."""
        low, high = (None if end is None else function(end) for end in (self.low, self.high))
        if low is not None and high is not None:
            low, high = sorted((low, high))
        return self.model_copy(update={"value": function(self.value), "low": low, "high": high})

    def side(self, value: float = 1.0) -> Side | None:
        """Where the interval lies of `value`, or that it holds it; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return "below" if self.high < value else "above" if self.low > value else "within"

    def beside(self, other: Self) -> Side | None:
        """Whether the interval lies beyond that of `other`, or they overlap; None where one has none."""
        if None in (self.low, self.high, other.low, other.high):
            return None
        return "below" if self.high < other.low else "above" if self.low > other.high else "within"

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

    def format(self, unit: str = "") -> str:
        """`2.31x [2.20, 2.44], n=5 restarts` for unit `x`; see `span`."""
        return f"{self.span(unit)}, n={self.counted}"


def finite(values: ArrayLike, name: str, ndim: int = 1) -> NDArray[np.float64]:
    """`values` as a float array of `ndim` dimensions.

    Raises:
        ValueError: if it has another shape, is empty, or holds NaN or infinity.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {ndim}-D, non-empty and finite, got shape {array.shape}")
    return array


def wilson(successes: float, n: int, unit_of_n: str = "prompts") -> Estimate:
    """A share successes/n with Wilson's score interval, which stays inside [0, 1] and holds at 0 and n.

    `successes` may be a sum of shares, one for each of n prompts that were asked several times: the interval
    holds if asking again says nothing new, as in greedy decoding, and is wider than need be where it does.

    Raises:
        ValueError: unless 0 <= successes <= n and n >= 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"need n >= 1 and 0 <= successes <= n, got {successes=}, {n=}")
    share, z = successes / n, float(special.ndtri((1 + LEVEL) / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = round(centre - half, 12), round(centre + half, 12)  # rounding errors end at 0 and 1
    return Estimate(value=share, low=low, high=high, n=n, unit_of_n=unit_of_n, method="wilson")
