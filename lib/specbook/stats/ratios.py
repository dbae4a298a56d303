"""The speed-up and its interval: ratios of arms measured together, and Student's t on their logarithms.

Why so plain: over noise like that of the shipped records (drift over seconds and minutes, stalls, arms
seconds or minutes apart) Student's t at n = 3 to 7 covers as it claims. A studentized bootstrap covers a
little less often and is wider at n = 5; percentile and BCa intervals cannot leave the sample, and cover far
less often. tests/test_ratios.py repeats that simulation. Below 3 values there is no interval.

Sources: Student 1908 (doi:10.1093/biomet/6.1.1); Cochran 1977, ch. 6 (the error of a ratio of sums).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbook.stats.estimate import Estimate
from specbook.stats.shares import finite

MIN_INTERVAL = 3


@lru_cache(maxsize=64)
def _t(level: float, freedom: int) -> float:
    """Student's quantile: SciPy takes far longer over it than all the rest takes."""
    return float(stats.t.ppf((1 + level) / 2, freedom))


def _student(values: NDArray[np.float64], level: float) -> tuple[float | None, float | None]:
    """Ends of Student's interval of the mean of `values` [n]; None below MIN_INTERVAL."""
    n = len(values)
    if n < MIN_INTERVAL:
        return None, None
    half = float(_t(level, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return float(values.mean()) - half, float(values.mean()) + half


def _estimate(value: float, ends: tuple[float | None, float | None], **rest: object) -> Estimate:
    method = "none" if ends[0] is None else "student-t"
    return Estimate(value=value, low=ends[0], high=ends[1], method=method, **rest)


def ratio_ci(
    numerator: ArrayLike, denominator: ArrayLike, level: float = 0.95, unit_of_n: str = "restarts"
) -> Estimate:
    """Geometric mean of the paired ratios numerator/denominator (each [n], positive), with its interval.

    Pairs (the same restart, arms interleaved) cancel what both arms shared. The geometric mean, not a ratio
    of medians: it uses every pair, and B/A is 1 / (A/B), interval included.

    Raises:
        ValueError: if the shapes differ, or a value is not positive and finite.
    """
    num, den = finite(numerator, "numerator"), finite(denominator, "denominator")
    if num.shape != den.shape or (num <= 0).any() or (den <= 0).any():
        raise ValueError(f"need pairs of positive values, got shapes {num.shape} and {den.shape}")
    logs = np.log(num / den)
    low, high = (None if end is None else math.exp(end) for end in _student(logs, level))
    return _estimate(math.exp(logs.mean()), (low, high), n=len(logs), unit_of_n=unit_of_n, level=level)


def geometric_mean_ci(values: ArrayLike, level: float = 0.95, unit_of_n: str = "restarts") -> Estimate:
    """Geometric mean of positive `values` [n] and its interval, in their unit: e.g. tokens/s over a few
    restarts.

    Raises:
        ValueError: if a value is not positive and finite.
    """
    return ratio_ci(values, np.ones(np.shape(values)), level, unit_of_n)


def ratio_of_sums_ci(
    numerator: ArrayLike, denominator: ArrayLike, level: float = 0.95, unit_of_n: str = "restarts"
) -> Estimate:
    """sum(numerator) / sum(denominator) (each [n]): a micro average, with its linearised error.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a denominator is not positive.
    """
    num, den = finite(numerator, "numerator"), finite(denominator, "denominator")
    if num.shape != den.shape or (den <= 0).any():
        raise ValueError(
            f"need pairs with positive denominators, got {num.shape}, {den.shape}, {den.min():g}"
        )
    value = float(num.sum() / den.sum())
    linearised = value + (num - value * den) / den.mean()  # its mean is the ratio, its spread the ratio's
    return _estimate(value, _student(linearised, level), n=len(num), unit_of_n=unit_of_n, level=level)
