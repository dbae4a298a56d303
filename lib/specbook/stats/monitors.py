"""Monitors of acceptance: when does a falling rate show, and how often do they alarm for nothing?

In: what an engine's counters grew by, from scrape to scrape or step to step. Each monitor turns the growths,
standardised by a quiet stretch (`Reference`) or by all before each (`self_starting_scores`), into a statistic
that rises when acceptance falls; an alarm is where it reaches its threshold. Which threshold is fair is
`detection`'s to say.

Sources: EWMA, Roberts 1959 (doi:10.1080/00401706.1959.10489860); CUSUM, Page 1954
(doi:10.1093/biomet/41.1-2.100); Shiryaev-Roberts, Roberts 1966 (doi:10.1080/00401706.1966.10490374);
self-starting charts, Hawkins 1987 (doi:10.2307/2348827).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from specbook.stats.estimate import finite

Values = NDArray[np.float64]
CONSTANT = "acceptance is the same in every interval: nothing says how much it may vary"


class Growth(NamedTuple):
    """What the counters grew by, [n] intervals one after the other; those without a draft are left out."""

    end_s: Values
    """When each interval ended, from any zero."""
    drafts: Values
    accepted: Values
    """Draft tokens."""

    @classmethod
    def of(
        cls, seconds: Sequence[float], drafts: Sequence[float | None], accepted: Sequence[float | None]
    ) -> Self:
        """Growth between [n + 1] readings of counters that only rise.

        A counter that fell was reset, as Prometheus has it: it grew by what it shows. A reading that is None
        was not to be had: its interval ends with the next one.

        Raises:
            ValueError: if the lengths differ, or the clock does not rise.
        """
        rows = [row for row in zip(seconds, drafts, accepted, strict=True) if None not in row]
        read = np.asarray(rows, dtype=float).reshape(-1, 3)
        if (np.diff(read[:, 0]) <= 0).any():
            raise ValueError(f"readings must lie one after the other, got seconds {read[:, 0].tolist()}")
        reset = (np.diff(read[:, 1:], axis=0) < 0).any(axis=1, keepdims=True)
        grown = np.where(reset, read[1:, 1:], np.diff(read[:, 1:], axis=0))
        busy = grown[:, 0] > 0
        return cls(read[1:, 0][busy], grown[busy, 0], grown[busy, 1])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Stretches as one; its clock is that of the parts, and goes back where they do."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def between(self, start_s: float, end_s: float) -> Self:
        """The intervals that ended after `start_s`, and not after `end_s`."""
        inside = (self.end_s > start_s) & (self.end_s <= end_s)
        return type(self)(*(column[inside] for column in self))

    @property
    def intervals(self) -> int:
        """n."""
        return self.drafts.size


class Reference(NamedTuple):
    """How acceptance is when nothing drifts."""

    accepted_per_draft: float
    """The acceptance length less its bonus token."""
    variance_per_draft: float
    """n times the variance of a mean over n drafts: drafts of one answer are alike, so it is above one
    draft's own."""

    @classmethod
    def of(cls, quiet: Growth) -> Self:
        """Reference from a stretch without drift, ten intervals at least.

        Raises:
            ValueError: if it is shorter, or acceptance never varies in it.
        """
        if quiet.intervals < 10:
            raise ValueError(f"need 10 intervals without drift, got {quiet.intervals}: record for longer")
        mean = quiet.accepted.sum() / quiet.drafts.sum()
        squares = quiet.drafts * (quiet.accepted / quiet.drafts - mean) ** 2
        if not squares.any():
            raise ValueError(CONSTANT)
        return cls(float(mean), float(squares.sum() / (quiet.intervals - 1)))

    def scores(self, growth: Growth) -> Values:
        """[n] standard deviations by which each interval lies *below* the reference."""
        spread = np.sqrt(self.variance_per_draft / growth.drafts)
        return (self.accepted_per_draft - growth.accepted / growth.drafts) / spread


def self_starting_scores(growth: Growth, learned: int, expected: float | None = None) -> Values:
    """[n - learned] standard deviations by which the intervals after `learned` ones lie below what is usual.

    Each is held against all before it. A reference from a short stretch is off, and a monitor that takes it
    for true alarms too often, or never. These scores allow for it: those of independent, normal intervals are
    independent and standard normal, however few came before, so that a threshold keeps its rate of false
    alarms.

    Args:
        growth: more than `learned` intervals, which are two at least.
        expected: accepted draft tokens per draft; None for their mean in all intervals before.

    Raises:
        ValueError: if acceptance is the same in all learned intervals.
    """
    from scipy import stats

    _, drafts, accepted = growth
    total, share = np.cumsum(drafts), accepted / drafts
    mean = np.cumsum(accepted) / total
    squares = np.cumsum(drafts * (share - mean[-1]) ** 2) - total * (mean - mean[-1]) ** 2
    if not (share[:learned] != share[0]).any():
        raise ValueError(CONSTANT)
    freedom = np.arange(learned - 1, growth.intervals - 1)  # also the place of the interval before
    centre, unsure = (mean[freedom], 1 / total[freedom]) if expected is None else (expected, 0.0)
    spread = np.sqrt(squares[freedom] / freedom * (1 / drafts[learned:] + unsure))
    below = (centre - share[learned:]) / spread
    tail = np.maximum(stats.t.sf(np.abs(below), freedom), 1e-300)  # the one that keeps its digits
    return np.sign(below) * stats.norm.isf(tail)


class Monitor(Protocol):
    """A statistic that rises when scores do."""

    @property
    def title(self) -> str:
        """For tables and figures, its setting included."""

    def statistics(self, scores: Values) -> Values:
        """[n], the i-th knowing scores 0..i, from a fresh start."""


class Window(NamedTuple):
    """The mean of the last `intervals` scores: what an alert on a rate over minutes does."""

    intervals: int = 30

    @property
    def title(self) -> str:
        """See `Monitor`."""
        return f"mean of {self.intervals}"

    def statistics(self, scores: Values) -> Values:
        """In standard deviations of that mean; before it is full, of what there is."""
        sums = np.cumsum(finite(scores, "scores"))
        held = np.minimum(np.arange(1, sums.size + 1), self.intervals)
        before = np.concatenate([np.zeros(self.intervals), sums])[: sums.size]
        return (sums - before) / np.sqrt(held)


class Ewma(NamedTuple):
    """A mean in which a score weighs the less, the older it is."""

    weight: float = 0.1

    @property
    def title(self) -> str:
        """See `Monitor`."""
        return f"EWMA {self.weight:g}"

    def statistics(self, scores: Values) -> Values:
        """In the standard deviations that it has in the long run."""
        from scipy.signal import lfilter

        mean = lfilter([self.weight], [1.0, self.weight - 1.0], finite(scores, "scores"))
        return mean / np.sqrt(self.weight / (2.0 - self.weight))


class Cusum(NamedTuple):
    """The sum of what scores exceed `allowance` by, never below 0: the worst stretch up to now."""

    allowance: float = 0.5
    """Half of the fall that it is to find, in standard deviations of an interval."""

    @property
    def title(self) -> str:
        """See `Monitor`."""
        return f"CUSUM {self.allowance:g}"

    def statistics(self, scores: Values) -> Values:
        """S_i = max(0, S_{i-1} + score - allowance)."""
        sums = np.cumsum(finite(scores, "scores") - self.allowance)
        return sums - np.minimum(0.0, np.minimum.accumulate(sums))


class ShiryaevRoberts(NamedTuple):
    """The sequential test that sums likelihood ratios over every moment the fall may have begun at."""

    fall: float = 1.0
    """That it is to find, in standard deviations of an interval."""

    @property
    def title(self) -> str:
        """See `Monitor`."""
        return f"Shiryaev-Roberts {self.fall:g}"

    def statistics(self, scores: Values) -> Values:
        """log R_i, R_i = (1 + R_{i-1}) L_i; where scores are normal, exp(threshold) bounds the mean number of
        intervals to a false alarm from below (Pollak 1985, doi:10.1214/aos/1176346587).
        """
        ratios = np.cumsum(self.fall * finite(scores, "scores") - self.fall**2 / 2)
        return ratios + np.logaddexp.accumulate(-np.concatenate([[0.0], ratios[:-1]]))


MONITORS: tuple[Monitor, ...] = (Window(), Ewma(), Cusum(), ShiryaevRoberts())
"""The monitors that are compared."""


def alarms(monitor: Monitor, scores: Values, threshold: float) -> list[int]:
    """Intervals in which the statistic reaches `threshold`; after each alarm it starts afresh."""
    places: list[int] = []
    start = 0
    while start < len(scores) and (place := _first(monitor, scores[start:], threshold)) is not None:
        places.append(start + place)
        start = places[-1] + 1
    return places


def _first(monitor: Monitor, scores: Values, threshold: float) -> int | None:
    """The first interval over the threshold, looked for in stretches that double: most are near."""
    reach = 32
    while True:
        over = monitor.statistics(scores[:reach]) >= threshold
        if over.any():
            return int(over.argmax())
        if reach >= len(scores):
            return None
        reach *= 2
