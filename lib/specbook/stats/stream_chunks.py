"""A stream's chunks and the decode steps behind them.

The engine sends a chunk a step, and where reader and engine share few cores the reader comes late: it finds
two chunks at once, one gap of two steps and one of next to nothing. Their median is then no step at all.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

TOGETHER = 0.1
"""Share of a step: chunks that are less apart came as one."""
LEAST_S = 1e-4
"""Chunks that are less apart came as one, whatever else came: no engine's step is so short."""
LONG = 90
"""Percentile of the gaps that no bunch of fewer than ten chunks pulls towards zero."""


def steps_s(streams: Iterable[Sequence[float]]) -> NDArray[np.float64]:
    """[n] Seconds of each decode step, of streams whose gaps between chunks are given, in seconds.

    Chunks that came as one share the time that passed before them. What came as one with a stream's first
    chunk has no time of its own, and is left out.
    """
    gaps = [np.asarray(own, dtype=float) for own in streams]
    long_s = float(np.percentile(np.concatenate(gaps), LONG)) if any(map(len, gaps)) else 0.0
    together_s = max(TOGETHER * long_s, LEAST_S)
    return np.concatenate([np.empty(0), *(_shared(own, together_s) for own in gaps)])


def _shared(gaps: NDArray[np.float64], together_s: float) -> NDArray[np.float64]:
    """Gaps from the first that parts two bunches on, each bunch's time spread over its chunks."""
    bunch = np.cumsum(gaps >= together_s)
    chunks, spent = np.bincount(bunch), np.bincount(bunch, weights=gaps)
    return np.repeat(spent / np.maximum(chunks, 1), chunks)[np.count_nonzero(bunch == 0) :]


def step_s(streams: Iterable[Sequence[float]]) -> float:
    """The median of `steps_s`; NaN without any."""
    found = steps_s(streams)
    return float(np.median(found)) if len(found) else np.nan
