"""Power of the intervals of `stats.ratios`: how likely a slowdown is seen, and the restarts that it takes.

Source: Johnson & Welch 1940 (doi:10.1093/biomet/31.3-4.362; the noncentral t).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from specbook.stats.estimate import Estimate
from specbook.stats.ratios import MIN_INTERVAL, geometric_mean_ci

MOST_RESTARTS = 1000


def power(slowdown: float, sd: float, restarts: ArrayLike, paired: bool) -> NDArray[np.float64]:
    """Probability that the 95 % interval of B/A lies below 1, for each number of restarts a side.

    Args:
        slowdown: share of A's speed that B lacks, in (0, 1).
        sd: standard deviation of a pair's log ratio; of a restart's log speed where nothing is paired.

    Raises:
        ValueError: if the slowdown is not inside (0, 1), or `sd` is negative.
    """
    if not 0.0 < slowdown < 1.0 or sd < 0:
        raise ValueError(f"need 0 < slowdown < 1 and sd >= 0, got {slowdown=}, {sd=}")
    n = np.asarray(restarts, dtype=float)
    freedom, error = (n - 1, sd / np.sqrt(n)) if paired else (2 * (n - 1), sd * np.sqrt(2 / n))
    beyond = -np.log1p(-slowdown) / np.maximum(error, 1e-12)
    seen = stats.nct.sf(special.stdtrit(freedom, 0.975), freedom, beyond)
    return np.where(np.isnan(seen), 1.0, seen)  # so far beyond that the series gives up


def restarts_for(slowdown: float, sd: float, paired: bool, wanted: float = 0.8) -> int | None:
    """Fewest restarts a side that see the slowdown with the `wanted` power; None beyond MOST_RESTARTS."""
    counts = np.arange(MIN_INTERVAL, MOST_RESTARTS + 1)
    enough = counts[power(slowdown, sd, counts, paired) >= wanted]
    return int(enough[0]) if len(enough) else None


def more_restarts(by_restart: ArrayLike, estimate: Estimate) -> int | None:
    """How many more restarts would show that a ratio is above 1 (`restarts_for`), were they like those
    measured; None where none would: it is not above 1, or its prompts alone leave the doubt.

    Args:
        by_restart: as in `ratios.crossed_ci`.
        estimate: what it made of them, with an interval.
    """
    alone = geometric_mean_ci(by_restart, estimate.level)
    effect, whole, restarts = (
        math.log(one) for one in (estimate.value, estimate.high / estimate.value, alone.high / alone.value)
    )
    left = effect**2 - whole**2 + restarts**2  # half-widths add up as squares: what restarts may take of it
    if effect <= 0 or left <= 0:
        return None
    needed = restarts_for(-math.expm1(-math.sqrt(left)), float(np.log(by_restart).std(ddof=1)), True)
    return needed and needed - alone.n
