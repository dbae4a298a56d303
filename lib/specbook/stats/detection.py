"""How good a monitor is: its delay, and its false alarms a day, where all monitors find the same drifts.

In: episodes, quiet at first and drifting from a known moment. A monitor that is made nervous enough finds
anything at once, so each gets the highest threshold with which it still finds a given share of the drifts
within a given time; then the better one has the fewest false alarms, and after that the least delay.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from specbook.stats.estimate import Estimate, wilson
from specbook.stats.monitors import Growth, Monitor, Reference, alarms

DAY_S = 86_400


class Episode(NamedTuple):
    """A recording in which the traffic drifts."""

    growth: Growth
    drift_s: float
    """On the recording's clock: when the drift begins."""


class Delay(NamedTuple):
    """From the beginning of the drift to the end of the interval in which the alarm was given."""

    seconds: float
    drafts: float


class Detection(NamedTuple):
    """One monitor at its threshold."""

    title: str
    threshold: float
    found: Estimate
    """Share of the episodes in which an alarm was in time, each at the threshold of the others."""
    delays: tuple[Delay, ...]
    """Delays of the alarms in the episodes that were found, shortest first."""
    false_alarms_per_day: Estimate


def since_drift(monitor: Monitor, reference: Reference, episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """([m] statistics, [m] seconds after the drift) of the intervals that end after it began.

    The monitor has watched the quiet part before, and has what it saw there in its state.
    """
    after = episode.growth.end_s > episode.drift_s
    values = monitor.statistics(reference.scores(episode.growth))[after]
    return values, episode.growth.end_s[after] - episode.drift_s


def _threshold(highest: np.ndarray, share: float) -> float:
    """The highest threshold with which `share` of the episodes alarm in time, by `_highest`."""
    return float(np.sort(highest)[::-1][int(np.ceil(share * len(highest))) - 1])


def _highest(
    monitor: Monitor, reference: Reference, episodes: Sequence[Episode], within_s: float
) -> np.ndarray:
    """[episodes] The statistic's maximum within the time: at most this threshold finds that episode."""
    highest = []
    for episode in episodes:
        values, seconds = since_drift(monitor, reference, episode)
        if not (seconds <= within_s).any():
            raise ValueError(f"an episode has no interval within {within_s:g} s of its drift: record longer")
        highest.append(values[seconds <= within_s].max())
    return np.array(highest)


def delay(monitor: Monitor, reference: Reference, episode: Episode, threshold: float) -> Delay | None:
    """How long the monitor takes; None if it never alarms after the drift."""
    values, seconds = since_drift(monitor, reference, episode)
    over = values >= threshold
    if not over.any():
        return None
    first = int(over.argmax())
    drafts = episode.growth.drafts[episode.growth.end_s > episode.drift_s]
    return Delay(float(seconds[first]), float(drafts[: first + 1].sum()))


class Quiet(NamedTuple):
    """Traffic without drift in which false alarms are counted."""

    growth: Growth
    """Intervals of `interval_s` each, those that have drafts."""
    interval_s: float
    """From reading to reading."""
    recorded_s: float
    """What of it was recorded: the rest is replays of that, and adds no traffic."""


def false_alarms_per_day(monitor: Monitor, reference: Reference, quiet: Quiet, threshold: float) -> Estimate:
    """Alarms in a stretch without drift, by days of it; n counts the minutes that were recorded.

    Returns:
        The rate, with the exact Poisson interval (Garwood 1936, doi:10.1093/biomet/28.3-4.437) of as many
        alarms as the recorded time would have had: a recording that is replayed a hundred times counts once,
        as a design effect counts clusters (Rao & Scott 1999, Statistics in Medicine 18:1373). Its upper end
        holds where no alarm came.
    """
    days = quiet.growth.intervals * quiet.interval_s / DAY_S
    rate = len(alarms(monitor, reference.scores(quiet.growth), threshold)) / days
    recorded = min(days, quiet.recorded_s / DAY_S)
    count = rate * recorded
    low = special.gammaincinv(count, 0.025) if count else 0.0
    high = special.gammaincinv(count + 1, 0.975)
    return Estimate(
        value=rate, low=low / recorded, high=high / recorded, n=round(24 * 60 * recorded),
        unit_of_n="minutes", method="poisson",
    )  # fmt: skip


class Blocks(NamedTuple):
    """How recordings are drawn from: moving blocks (Kunsch 1989, doi:10.1214/aos/1176347265).

    Within a block the answers in flight stay the same, and so do the runs of bad luck that false alarms are
    made of; runs longer than a block are lost.
    """

    length: int
    """Intervals."""
    interval_s: float
    """From reading to reading, as it was recorded."""


def resampled(quiet: Growth, intervals: int, blocks: Blocks, rng: np.random.Generator) -> Growth:
    """A longer quiet stretch: blocks of a recorded one, drawn again and again.

    Raises:
        ValueError: if the recording is shorter than a block.
    """
    length, interval_s = blocks
    if not 1 <= length <= quiet.intervals:
        raise ValueError(f"a block of {length} intervals does not fit into {quiet.intervals} recorded ones")
    starts = rng.integers(0, quiet.intervals - length + 1, -(-intervals // length))
    places = (starts[:, None] + np.arange(length)).ravel()[:intervals]
    clock = interval_s * np.arange(1.0, intervals + 1)
    return Growth(clock, quiet.drafts[places], quiet.accepted[places])


def spliced(
    before: Growth, after: Growth, intervals: int, blocks: Blocks, rng: np.random.Generator
) -> Episode:
    """An abrupt drift made of two recordings: `intervals` of the one, then as many of the other."""
    first, then = (resampled(part, intervals, blocks, rng) for part in (before, after))
    drift_s = float(first.end_s[-1])
    return Episode(Growth.joined([first, then._replace(end_s=then.end_s + drift_s)]), drift_s)


def compare(
    monitors: Sequence[Monitor],
    reference: Reference,
    episodes: Sequence[Episode],
    quiet: Quiet,
    *,
    share: float,
    within_s: float,
) -> list[Detection]:
    """Each monitor at its own threshold, the fewest false alarms first, then the quickest.

    The threshold is the highest with which `share` of the episodes alarm within `within_s` of the drift.

    An episode is judged at the threshold of the others: at one that it helped to set, it would be found by
    construction. A single episode is therefore never found. One that had to alarm at what is as usual,
    at 0 or below, to be quick enough is left out.

    Raises:
        ValueError: if there is no episode, or one ends before anything can be seen.
    """
    if not episodes or not 0 < share <= 1:
        raise ValueError(f"need an episode and a share above 0, got {len(episodes)} and {share}")
    made = []
    for monitor in monitors:
        highest = _highest(monitor, reference, episodes, within_s)
        at = _threshold(highest, share)
        if at <= 0:
            continue
        places = range(len(episodes) if len(episodes) > 1 else 0)
        held_out = [
            delay(monitor, reference, episodes[i], _threshold(np.delete(highest, i), share)) for i in places
        ]
        delays = tuple(sorted(d for d in held_out if d is not None and d.seconds <= within_s))
        found = wilson(len(delays), len(episodes), unit_of_n="episodes")
        rate = false_alarms_per_day(monitor, reference, quiet, at)
        made.append(Detection(monitor.title, at, found, delays, rate))

    def rank(one: Detection) -> tuple[float, float]:
        return one.false_alarms_per_day.value, float(np.median([d.seconds for d in one.delays] or [np.inf]))

    return sorted(made, key=rank)
