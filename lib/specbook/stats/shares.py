"""Shares with their interval, and the check that all numbers pass.

Source: Wilson 1927 (doi:10.1080/01621459.1927.10502953).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbook.stats.estimate import Estimate


def finite(values: ArrayLike, name: str, ndim: int = 1) -> NDArray[np.float64]:
    """`values` as a float array of `ndim` dimensions.

    Raises:
        ValueError: if it has another shape, is empty, or holds NaN or infinity.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {ndim}-D, non-empty and finite, got shape {array.shape}")
    return array


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
