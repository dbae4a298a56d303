"""The speed-up and its interval: paired ratios, honest at the few restarts a benchmark can afford.

Why not the percentile bootstrap: at n = 5 pairs its "95 %" interval of the mean covers about 0.80 to 0.87,
and BCa cannot do better, since both end inside the sample. Resampling the *studentized* mean (bootstrap-t)
covers 0.92 to 0.96 under normal, heavy-tailed and skewed noise, but now and then a resample of five is nearly
without spread, and one end of the interval flies off. So each resample's variance takes a twentieth from the
sample's own, which halves the widest intervals and covers 0.92 to 0.95: tests/test_ratios.py repeats that
simulation. Below 5 values too many resamples have no spread (3 of 27 at n = 3), so Student's t takes over,
and below 3 there is no interval. `Estimate.method` says which it was.

Sources: Efron & Tibshirani 1993, ch. 12; Hesterberg 2015 (doi:10.1080/00031305.2015.1089789).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbook.estimate import Estimate
from specbook.stats import finite

MIN_STUDENTIZED = 5
MIN_INTERVAL = 3
RESAMPLES = 9999
SHRINK = 0.05
"""Share of the sample's variance in each resample's: of few values a resample may be nearly alike."""

Floats = NDArray[np.float64]


def _log_ratios(numerator: ArrayLike, denominator: ArrayLike) -> Floats:
    num, den = finite(numerator, "numerator"), finite(denominator, "denominator")
    if num.shape != den.shape or (num <= 0).any() or (den <= 0).any():
        raise ValueError(f"need pairs of positive values, got shapes {num.shape} and {den.shape}")
    return np.log(num / den)


def _studentized(
    data: Floats, estimate: Callable[[Floats], tuple[Floats, Floats]], level: float, seed: int, unit_of_n: str
) -> Estimate:
    """Bootstrap-t over the rows of `data` [n, columns].

    `estimate` maps [..., n, columns] to (value, standard error), each [...].
    """
    n, low, high, method = len(data), None, None, "none"
    value, error = (float(part) for part in estimate(data))
    if n >= MIN_INTERVAL:
        half = float(stats.t.ppf((1 + level) / 2, n - 1)) * error
        low, high, method = value - half, value + half, "student-t"
    if n >= MIN_STUDENTIZED:
        rows = np.random.default_rng(seed).integers(0, n, size=(RESAMPLES, n))
        low_t, high_t = _t_quantiles(*estimate(data[rows]), value, error, level)
        low, high, method = value - high_t * error, value - low_t * error, "bootstrap-t"
    return Estimate(value=value, low=low, high=high, n=n, unit_of_n=unit_of_n, level=level, method=method)


def _t_quantiles(
    values: Floats, errors: Floats, value: float, error: float, level: float
) -> tuple[float, float]:
    """Tail quantiles of the resampled t, its spread drawn a little towards the sample's own (SHRINK)."""
    if error <= 1e-12 * max(1.0, abs(value)):  # all values alike, rounding aside
        return 0.0, 0.0
    t = (values - value) / np.sqrt((1 - SHRINK) * errors**2 + SHRINK * error**2)
    low, high = np.quantile(t, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _mean(x: Floats) -> tuple[Floats, Floats]:
    n = x.shape[-2]
    return x[..., 0].mean(-1), x[..., 0].std(-1, ddof=min(1, n - 1)) / math.sqrt(n)


def _ratio_of_sums(x: Floats) -> tuple[Floats, Floats]:
    """Value and linearised standard error of sum(column 0) / sum(column 1)."""
    n, total = x.shape[-2], x[..., 1].sum(-1)
    ratio = x[..., 0].sum(-1) / total
    residual = x[..., 0] - ratio[..., None] * x[..., 1]
    return ratio, np.sqrt(n / max(n - 1, 1) * (residual**2).sum(-1)) / total


def ratio_ci(
    numerator: ArrayLike,
    denominator: ArrayLike,
    level: float = 0.95,
    seed: int = 0,
    unit_of_n: str = "restarts",
) -> Estimate:
    """Geometric mean of the paired ratios numerator/denominator (each [n], positive), with its interval.

    Pairs (the same restart, arms interleaved) cancel what both arms shared. The geometric mean, not a ratio
    of medians: it uses every pair, B/A is 1 / (A/B), and at n = 5 a bootstrapped median has only five
    possible values.

    Raises:
        ValueError: if the shapes differ, or a value is not positive and finite.
    """
    logs = _log_ratios(numerator, denominator)
    found = _studentized(logs[:, None], _mean, level, seed, unit_of_n)
    ends = {name: getattr(found, name) for name in ("value", "low", "high")}
    return found.model_copy(
        update={name: None if end is None else math.exp(end) for name, end in ends.items()}
    )


def geometric_mean_ci(
    values: ArrayLike, level: float = 0.95, seed: int = 0, unit_of_n: str = "restarts"
) -> Estimate:
    """Geometric mean of positive `values` [n] and its interval, in their unit: e.g. tokens/s over a few
    restarts.

    Raises:
        ValueError: if a value is not positive and finite.
    """
    return ratio_ci(values, np.ones(np.shape(values)), level, seed, unit_of_n)


def ratio_of_sums_ci(
    numerator: ArrayLike,
    denominator: ArrayLike,
    level: float = 0.95,
    seed: int = 0,
    unit_of_n: str = "restarts",
) -> Estimate:
    """sum(numerator) / sum(denominator) (each [n]): a micro average, its rows resampled together.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a denominator is not positive.
    """
    pairs = np.column_stack([finite(numerator, "numerator"), finite(denominator, "denominator")])
    if (pairs[:, 1] <= 0).any():
        raise ValueError(f"denominators must be positive, the smallest is {pairs[:, 1].min():g}")
    return _studentized(pairs, _ratio_of_sums, level, seed, unit_of_n)
