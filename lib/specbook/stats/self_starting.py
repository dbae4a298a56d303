"""Scores of acceptance where no quiet stretch was recorded before: each interval against all before it.

A reference from a short stretch is off, and a monitor that takes it for true alarms too often, or never.
These scores allow for it: those of independent, normal intervals are independent and standard normal,
however few came before, so that a threshold keeps its rate of false alarms.

Source: Hawkins 1987, self-starting charts (doi:10.2307/2348827).
"""

import numpy as np
from scipy import stats

from specbook.stats.monitors import Growth, Values


def scores(growth: Growth, learned: int, expected: float | None = None) -> Values:
    """[n - learned] standard deviations by which the intervals after `learned` ones lie below what is usual.

    Args:
        growth: more than `learned` intervals, which are two at least.
        expected: accepted draft tokens per draft; None for their mean in all intervals before.

    Raises:
        ValueError: if acceptance is the same in all learned intervals.
    """
    _, drafts, accepted = growth
    total, share = np.cumsum(drafts), accepted / drafts
    mean = np.cumsum(accepted) / total
    squares = np.cumsum(drafts * (share - mean[-1]) ** 2) - total * (mean - mean[-1]) ** 2
    if not (share[:learned] != share[0]).any():
        raise ValueError("acceptance is the same in every interval: nothing says how much it may vary")
    freedom = np.arange(learned - 1, growth.intervals - 1)  # also the place of the interval before
    centre, unsure = (mean[freedom], 1 / total[freedom]) if expected is None else (expected, 0.0)
    spread = np.sqrt(squares[freedom] / freedom * (1 / drafts[learned:] + unsure))
    below = (centre - share[learned:]) / spread
    tail = np.maximum(stats.t.sf(np.abs(below), freedom), 1e-300)  # the one that keeps its digits
    return np.sign(below) * stats.norm.isf(tail)
