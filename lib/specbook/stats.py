"""Percentiles with their sample-size rule, and shares. What restarts say is in `specbook.ratios`.

Sources: Conover 1999 (order-statistic interval of a quantile); Efron & Tibshirani 1993; Wilson 1927.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbook.estimate import Estimate, Quantile

MIN_TAIL_SAMPLES = 5
"""Samples expected beyond a percentile before it is quoted: p99 needs 500, p95 100, p50 10. The upper end
of its 95 % interval exists from 3.7 (exp(-3.7) = 0.025); at 5 that end is no longer always the largest
sample.
"""


def finite(values: ArrayLike, name: str, ndim: int = 1) -> NDArray[np.float64]:
    """`values` as a float array of `ndim` dimensions.

    Raises:
        ValueError: if it has another shape, is empty, or holds NaN or infinity.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {ndim}-D, non-empty and finite, got shape {array.shape}")
    return array


def enough_for(q: float, n: int) -> bool:
    """Whether `n` samples support quantile `q` in (0, 1): MIN_TAIL_SAMPLES expected on its thinner side.

    Raises:
        ValueError: if q is not inside (0, 1) or n is negative.
    """
    if not 0.0 < q < 1.0 or n < 0:
        raise ValueError(f"need 0 < q < 1 and n >= 0, got {q=}, {n=}")
    return round(n * min(q, 1.0 - q), 9) >= MIN_TAIL_SAMPLES


def quantile(values: ArrayLike, q: float, level: float = 0.95) -> Quantile:
    """Quantile `q` of `values` [n], in their unit, with the binomial order-statistic interval.

    It needs no distribution and is conservative, but takes samples as independent; requests that shared
    batches are not quite, so the doubt is at least this large.

    Raises:
        ValueError: if `values` is empty or not finite, or q is not inside (0, 1).
    """
    ordered = np.sort(finite(values, "values"))
    n = len(ordered)
    enough = enough_for(q, n)
    low = int(stats.binom.ppf((1 - level) / 2, n, q))  # ranks, from 1
    high = int(stats.binom.ppf((1 + level) / 2, n, q)) + 1
    return Quantile(
        value=float(np.quantile(ordered, q)),
        n=n,
        enough=enough,
        ci_low=float(ordered[low - 1]) if low >= 1 else None,
        ci_high=float(ordered[high - 1]) if high <= n else None,
    )


def wilson(successes: int, n: int, level: float = 0.95, unit_of_n: str = "prompts") -> Estimate:
    """A share successes/n with Wilson's score interval, which stays inside [0, 1] and holds at 0 and n.

    Raises:
        ValueError: unless 0 <= successes <= n and n >= 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"need n >= 1 and 0 <= successes <= n, got {successes=}, {n=}")
    interval = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    return Estimate(
        value=successes / n,
        low=float(interval.low),
        high=float(interval.high),
        n=n,
        unit_of_n=unit_of_n,
        level=level,
        method="wilson",
    )
