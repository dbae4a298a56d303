"""The speed-up and its interval: ratios of arms measured together, and Student's t on their logarithms; and
the intervals' power: how likely a slowdown is seen, and the restarts that it takes.

Restarts and prompts are both samples. `crossed_ci` has Student's t over each, over prompts by the jackknife;
its half-width is the root of the sum of their squares. With 3 and 5 restarts of 12, 32 and 64 prompts it
covers as it claims. Resampled prompts cover less at 12; pooled degrees of freedom (Satterthwaite) may give a
narrower interval than restarts alone. No interval knows of rare answers that its sample lacks.

Why so plain: over noise like that of the shipped records (drift over seconds and minutes, stalls, arms
seconds or minutes apart) Student's t at n = 3 to 7 covers as it claims. A studentized bootstrap covers a
little less often and is wider at n = 5; percentile and BCa intervals cannot leave the sample, and cover far
less often. tests/stats/test_ratios.py repeats that simulation. Below 3 values there is no interval.

Sources: Student 1908 (doi:10.1093/biomet/6.1.1); Cochran 1977, ch. 6 (the error of a ratio of sums); Efron &
Tibshirani 1993, ch. 11 (jackknife); Owen 2007 (doi:10.1214/07-AOAS122; two crossed factors).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from specbook.stats.estimate import LEVEL, Estimate, finite

MIN_INTERVAL = 3
MOST_RESTARTS = 1000


def _t(level: float, freedom: float) -> float:
    """Quantile of Student's t, two-sided."""
    return float(special.stdtrit(freedom, (1 + level) / 2))


def _student(values: NDArray[np.float64], level: float) -> tuple[float | None, float | None]:
    """Ends of Student's interval of the mean of `values` [n]; None below MIN_INTERVAL."""
    n = len(values)
    if n < MIN_INTERVAL:
        return None, None
    half = float(_t(level, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return float(values.mean()) - half, float(values.mean()) + half


def leave_one_out(tokens: ArrayLike, seconds: ArrayLike) -> NDArray[np.float64]:
    """[prompts] Change of log(sum(tokens) / sum(seconds)) when a prompt is left out, mean over windows.

    Args:
        tokens: [windows, prompts] written for each prompt; 0 where a window lacks it.
        seconds: [windows, prompts] from request to last token: at concurrency 1 their sum is the window's.
    """
    written, spent = finite(tokens, "tokens", 2), finite(seconds, "seconds", 2)
    speed = written.sum(axis=1, keepdims=True) / spent.sum(axis=1, keepdims=True)
    left, left_s = (each.sum(axis=1, keepdims=True) - each for each in (written, spent))
    without = np.divide(left, left_s, out=np.broadcast_to(speed, left.shape).copy(), where=left * left_s > 0)
    return np.log(without / speed).mean(axis=0)


def crossed_ci(by_restart: ArrayLike, by_prompt: Sequence[ArrayLike]) -> Estimate:
    """Geometric mean of the ratios of restarts [n], with an interval that covers restarts and prompts.

    Args:
        by_restart: ratios of two arms, each over the same prompts.
        by_prompt: `leave_one_out` changes of the log of that mean, an array per domain: prompts are drawn
            domain by domain. At concurrency above 1 they are the variation of requests' own speeds, which
            stands for that of the ratio of whole windows.
    """
    estimate = geometric_mean_ci(by_restart)
    domains = [finite(changes, "changes") for changes in by_prompt]
    prompts = sum(map(len, domains))
    if estimate.low is None or min(map(len, domains), default=0) < MIN_INTERVAL:
        return estimate.model_copy(update={"low": None, "high": None, "method": "none", "prompts": prompts})
    variances = np.array([(len(x) - 1) ** 2 / len(x) * x.var(ddof=1) for x in domains])  # by the jackknife
    half = _summed_half(variances, [len(x) - 1 for x in domains], LEVEL)
    wide = math.hypot(math.log(estimate.high / estimate.value), half)
    ends = {"low": estimate.value / math.exp(wide), "high": estimate.value * math.exp(wide)}
    return estimate.model_copy(update={**ends, "method": "prompts-and-restarts", "prompts": prompts})


def _summed_half(variances: NDArray[np.float64], freedoms: Sequence[int], level: float) -> float:
    """Half-width for a sum of independent parts, each with its variance and its degrees of freedom, which
    are put together as Satterthwaite does.
    """
    total = float(variances.sum())
    if not total > 0:
        return 0.0
    return _t(level, total**2 / float((variances**2 / freedoms).sum())) * math.sqrt(total)


def _estimate(
    value: float, ends: tuple[float | None, float | None], method: str = "student-t", **rest: object
) -> Estimate:
    low, high = ends
    return Estimate(value=value, low=low, high=high, method="none" if low is None else method, **rest)


def ratio_ci(
    numerator: ArrayLike, denominator: ArrayLike, level: float = LEVEL, unit_of_n: str = "restarts"
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


def independent_ratio_ci(numerator: ArrayLike, denominator: ArrayLike, level: float = LEVEL) -> Estimate:
    """Ratio of two geometric means, of samples [n] and [m] that share no round, by Welch's t on logarithms.

    Wider than `ratio_ci`, since nothing cancels. Its `n` is the smaller sample's.

    Raises:
        ValueError: if a value is not positive and finite.

    Source: Welch 1947 (doi:10.1093/biomet/34.1-2.28).
    """
    num, den = finite(numerator, "numerator"), finite(denominator, "denominator")
    if min(num.min(), den.min()) <= 0:
        raise ValueError(f"need positive values, got {num.min():g} and {den.min():g}")
    logs, fewest = (np.log(num), np.log(den)), min(len(num), len(den))
    change = float(logs[0].mean() - logs[1].mean())
    ends = None, None
    if fewest >= MIN_INTERVAL:
        errors = np.array([x.var(ddof=1) / len(x) for x in logs])
        half = _summed_half(errors, [len(x) - 1 for x in logs], level)
        ends = math.exp(change - half), math.exp(change + half)
    return _estimate(math.exp(change), ends, "welch-t", n=fewest, unit_of_n="restarts", level=level)


def geometric_mean_ci(values: ArrayLike) -> Estimate:
    """Geometric mean of positive `values` [n] and its interval, in their unit: e.g. tokens/s over a few
    restarts.

    Raises:
        ValueError: if a value is not positive and finite.
    """
    return ratio_ci(values, np.ones(np.shape(values)))


def ratio_of_sums_ci(numerator: ArrayLike, denominator: ArrayLike, unit_of_n: str = "restarts") -> Estimate:
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
    return _estimate(value, _student(linearised, LEVEL), n=len(num), unit_of_n=unit_of_n)


def power(slowdown: float, sd: float, restarts: ArrayLike, paired: bool) -> NDArray[np.float64]:
    """Probability that the 95 % interval of B/A lies below 1, for each number of restarts a side.

    Args:
        slowdown: share of A's speed that B lacks, in (0, 1).
        sd: standard deviation of a pair's log ratio; of a restart's log speed where nothing is paired.

    Raises:
        ValueError: if the slowdown is not inside (0, 1), or `sd` is negative.

    Source: Johnson & Welch 1940 (doi:10.1093/biomet/31.3-4.362; the noncentral t).
    """
    from scipy import stats

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

    `estimate` is what `crossed_ci` made of `by_restart`, with an interval.
    """
    alone = geometric_mean_ci(by_restart)
    effect, whole, restarts = (
        math.log(one) for one in (estimate.value, estimate.high / estimate.value, alone.high / alone.value)
    )
    left = effect**2 - whole**2 + restarts**2  # half-widths add up as squares: what restarts may take of it
    if effect <= 0 or left <= 0:
        return None
    needed = restarts_for(-math.expm1(-math.sqrt(left)), float(np.log(by_restart).std(ddof=1)), True)
    return needed and needed - alone.n
