"""Percentiles of requests over a few restarts: what n counts, when one may be quoted, and its interval.

Requests are no independent samples. Every restart answers the same prompts, with greedy decoding in the same
words, and its requests share the machine's speed of those minutes. So each restart gives a percentile of its
own, and the value is their mean; n counts the distinct prompts behind each. The interval covers both sources
of variation. Prompts are resampled, jointly in all restarts and in both arms; restarts, of which there are
few, enter by Student's t on their own percentiles, for the reason given in `specbook.stats.ratios`: resampled
too, they cover too little.

The interval of one arm is taken on the logarithm, `value * exp(error / value)`: a latency is positive. Each
figure is from 2,000 simulations of three restarts. Where the standard deviation of the restarts' logarithms
is 0.13, the interval holds the mean in 96 % of cases, and so does one of the latency itself. At 0.6 it holds
it in 93 % (the other in 91 %, and 60 % of those reach below zero), at 1.0 in 91 % (84 %). Where a restart in
three is six times as slow, three restarts are too few for either (67 %, of 500).
tests/stats/test_percentiles.py repeats the simulation.

Sources: Efron & Tibshirani 1993, ch. 8 (resample what is independent); Owen 2007 (doi:10.1214/07-AOAS122;
two crossed factors); Student 1908 (doi:10.1093/biomet/6.1.1).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from specbook.stats.estimate import LEVEL, Estimate, finite
from specbook.stats.ratios import MIN_INTERVAL

MIN_BEYOND = 5
"""Prompts expected beyond a percentile before it is quoted: p99 needs 500, p95 100, p50 10."""
RESAMPLES = 999
GRID = 201
"""Places at which a resampled distribution is looked up, over six standard errors to each side."""

Floats = NDArray[np.float64]


class Requests(NamedTuple):
    """Numbers of requests [n], one each or several (gaps), with the prompt and the restart of each."""

    values: ArrayLike
    prompts: ArrayLike
    restarts: ArrayLike


def enough_for(q: float, n: int) -> bool:
    """Whether `n` distinct prompts support quantile `q` in (0, 1): MIN_BEYOND expected on its thinner side.

    Raises:
        ValueError: if q is not inside (0, 1) or n is negative.
    """
    if not 0.0 < q < 1.0 or n < 0:
        raise ValueError(f"need 0 < q < 1 and n >= 0, got {q=}, {n=}")
    return round(n * min(q, 1.0 - q), 9) >= MIN_BEYOND


def percentile(requests: Requests, q: float, interval: bool = True) -> Estimate:
    """Quantile `q` of a restart's requests, mean over restarts, in their unit.

    It has no interval where prompts are too few (`enough_for`), or restarts are (MIN_INTERVAL), or none is
    wanted: it takes a moment.

    Raises:
        ValueError: if there are no values, one is not finite, or q is not inside (0, 1).
    """
    return _estimate([requests], q, interval)


def change(arm: Requests, base: Requests, q: float) -> Estimate:
    """Quantile `q` of `arm` minus that of `base`, mean over the restarts that both have; see `percentile`.

    Raises:
        ValueError: as `percentile`, or if the arms share no restart.
    """
    return _estimate([arm, base], q)


def by_restart(requests: Requests, q: float) -> Floats:
    """Quantile `q` of each restart's own requests, [restarts]."""
    ((_, row),), *_ = _windows([requests])
    return np.array([np.quantile(x, q) for x, _ in row])


def _estimate(arms: Sequence[Requests], q: float, interval: bool = True) -> Estimate:
    windows, prompts, n = _windows(arms)
    own = sum(sign * np.array([np.quantile(x, q) for x, _ in row]) for sign, row in windows)
    fields = {"value": float(own.mean()), "n": n, "unit_of_n": "prompts"}
    if not (interval and enough_for(q, n) and len(own) >= MIN_INTERVAL):
        return Estimate(low=None, high=None, method="none", **fields)
    weights, order = _draws(prompts, RESAMPLES)
    drawn = sum(sign * _resampled(x, of, weights, q) for sign, row in windows for x, of in row) / len(own)
    spread = own.std(ddof=1) / math.sqrt(len(own))
    t = special.stdtrit(len(own) - 1, (np.arange(RESAMPLES) + 0.5) / RESAMPLES)
    ends = np.quantile(drawn + spread * t[order], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if len(arms) == 1 and own.mean() > 0:  # a length of time, not the difference of two
        ends = own.mean() * np.exp(ends / own.mean() - 1)
    low, high = map(float, ends)
    return Estimate(low=low, high=high, method="prompts-and-restarts", **fields)


@lru_cache(maxsize=8)
def _draws(prompts: int, draws: int) -> tuple[Floats, NDArray[np.intp]]:
    """How often each prompt is drawn, [draws, prompts], and the order of the draws of restarts.

    All percentiles have one seed, so these are made once for a number of prompts.
    """
    rng = np.random.default_rng(0)
    weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), draws).astype(float)
    return weights, rng.permutation(draws)


def _windows(arms: Sequence[Requests]) -> tuple[list, int, int]:
    """Per arm its sign and, per shared restart, (values, prompt numbers); how many prompts there are in all,
    and the fewest in one window.
    """
    names, numbers = np.unique(np.concatenate([np.asarray(a.prompts) for a in arms]), return_inverse=True)
    numbers = np.split(numbers, np.cumsum([len(np.asarray(a.prompts)) for a in arms])[:-1])
    restarts = [np.asarray(a.restarts) for a in arms]
    shared = sorted(set.intersection(*(set(ids.tolist()) for ids in restarts)))
    if not shared:
        raise ValueError("need at least one restart in all arms: measure them in the same restarts")
    rows = []
    for sign, arm, of, at in zip((1, -1), arms, numbers, restarts, strict=False):
        values = finite(arm.values, "values")
        rows.append((sign, [(values[at == restart], of[at == restart]) for restart in shared]))
    fewest = min(len(np.unique(of)) for _, row in rows for _, of in row)
    return rows, len(names), fewest


def _resampled(values: Floats, prompts: NDArray[np.intp], weights: Floats, q: float) -> Floats:
    """Quantile `q` [draws] of `values` [n], each counted as often as `weights` [draws, prompts] says."""
    reach = 6 * math.sqrt(q * (1 - q) / len(np.unique(prompts)))
    levels = np.linspace(max(0.0, q - reach), min(1.0, q + reach), GRID)
    grid = np.unique(np.quantile(values, levels, method="inverted_cdf"))
    places, all_prompts = len(grid) + 1, weights.shape[1]
    at = prompts * places + np.searchsorted(grid, values)
    counts = np.bincount(at, minlength=all_prompts * places).reshape(all_prompts, places)
    upto = counts.cumsum(axis=1).T.astype(float)  # [places, prompts]
    wanted, first, last = q * (weights @ upto[-1]), np.zeros(len(weights), int), places - 1
    for _ in range(places.bit_length()):  # each draw's first place that has so many
        middle = (first + last) // 2
        enough = np.einsum("dp,dp->d", weights, upto[middle]) >= wanted
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    return grid[np.minimum(first, len(grid) - 1)]
