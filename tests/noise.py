"""Noise of a machine that also does other things, to try intervals on: a model, and the shipped records.

The model is the logarithm of a window's speed: what changes from window to window, within half a minute, and
over a quarter of an hour. Its sizes fit the variogram of the closed-loop records of two cores of an EPYC that
shipped on 2026-11-21 (spread between windows of one arm: 0.08 after 5 s, 0.12 after a minute, 0.15 after half
an hour). Stalls come on top: one window in twenty is slowed, to 0.6 of its speed on average.
"""

from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbook import records
from specbook.records import run_set

WINDOW, FAST, SLOW = 0.07, 0.10, 0.09
FAST_S, SLOW_S = 30.0, 900.0
STALLS, STALL_DEPTH = 0.05, 0.5
ROUND_S, ARMS = 1100.0, 6

Floats = NDArray[np.float64]


def _drift(rng: np.random.Generator, times_s: Floats, size: float, scale_s: float) -> Floats:
    """Correlated normal noise [trials, windows] at `times_s`: correlation exp(-lag / scale_s)."""
    lags = np.abs(times_s[:, :, None] - times_s[:, None, :])
    root = np.linalg.cholesky(np.exp(-lags / scale_s) + 1e-9 * np.eye(lags.shape[1]))
    return size * np.einsum("tij,tj->ti", root, rng.normal(size=times_s.shape))


def log_ratios(
    rng: np.random.Generator, trials: int, n: int, apart_s: float, stalls: float = STALLS
) -> Floats:
    """Log speed ratios [trials, n rounds] of two equal arms of a round of ARMS, in random order."""
    turns = np.argsort(rng.random((trials, n, ARMS)), axis=2)[:, :, :2]
    times_s = (ROUND_S * np.arange(n)[None, :, None] + apart_s * turns).reshape(trials, -1)
    speeds = _drift(rng, times_s, FAST, FAST_S) + _drift(rng, times_s, SLOW, SLOW_S)
    speeds += rng.normal(0, WINDOW, times_s.shape)
    speeds -= (rng.random(times_s.shape) < stalls) * rng.exponential(STALL_DEPTH, times_s.shape)
    return -np.diff(speeds.reshape(trials, n, 2))[:, :, 0]


@cache
def shipped_log_ratios() -> Floats:
    """By what log ratios of drafting arm to baseline differ over restarts, pooled over the shipped cells."""
    rows = [
        (run.hardware.id, run.point.target.name, run.point.load.label,
         f"{run.point.traffic.domain} at {run.point.traffic.temperature}", run.round.id, run.point.restart,
         f"{run.point.arm} {run.point.speculation and run.point.speculation.model}",
         np.log(run.measurement.throughput.output_tokens_per_s))
        for hardware in sorted({run.hardware.id for run in records.load()})  # each with weights of its own
        for run in run_set.current(records.load(hardware))
    ]  # fmt: skip
    names = ["hardware", "target", "load", "domain", "round", "restart", "arm"]
    speeds = pd.DataFrame(rows, columns=[*names, "log"]).set_index(names)["log"].unstack("arm")
    is_base = speeds.columns.str.startswith("baseline")
    ratios = {
        (a, b): speeds[a] - speeds[b] for a in speeds.columns[~is_base] for b in speeds.columns[is_base]
    }
    pairs = pd.concat(ratios).dropna()
    cells = pairs.groupby(level=[0, 1, *names[:4]])
    size = cells.transform("size")
    return ((pairs - cells.transform("mean")) * np.sqrt(size / (size - 1)))[size >= 3].to_numpy()
