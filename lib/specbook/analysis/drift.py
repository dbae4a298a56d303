"""Drift as it was recorded: monitors replayed over the counters, and what a fallback did for the requests."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from specbook.records.experiment_results import DriftEpisodes, FallbackArms, Readings, Requests, RoutedArm
from specbook.records.experiment_results import Episode as RecordedEpisode
from specbook.records.run import ExperimentRecord
from specbook.stats import detection, ratios
from specbook.stats.detection import Blocks, Episode, Quiet
from specbook.stats.estimate import Estimate
from specbook.stats.monitors import MONITORS, Growth, Reference

SHARE, WITHIN_S = 0.95, (3.0, 10.0, 20.0)
"""All monitors are set so that they find this share of the episodes within a time, each of these in turn: the
longer it may take, the higher a threshold may be, and the fewer are its false alarms."""
BLOCK_S = 10.0
"""Seconds of each block that replays are drawn from: longer than an answer takes."""
COMPARED = (
    "drift", "within_s", "monitor", "threshold", "episodes", "found", "delay_s", "delay_p90_s",
    "delay_drafts", "false_alarms", "estimate",
)  # fmt: skip
ROLLED = ("monitor", "threshold", "rollouts", "fired", "delay_s", "delay_drafts")
SERVED = (
    "arm", "repeats", "sent", "lost", "broken", "tokens_per_s", "e2e_p50_s", "e2e_p99_s", "ttft_p99_s",
    "switches", "in_flight",
)  # fmt: skip


class Recordings(NamedTuple):
    """What a chapter's experiments of drift recorded, by what their traffic did."""

    quiet: list[RecordedEpisode]
    abrupt: list[RecordedEpisode]
    slow: list[RecordedEpisode]

    @classmethod
    def of_records(cls, records: Iterable[tuple[ExperimentRecord, DriftEpisodes]]) -> "Recordings":
        """Recordings from what `experiments.replay` gives."""
        return cls.of(
            (bool(record.experiment.parameters["traffic"].get("ramp")), result) for record, result in records
        )

    @classmethod
    def of(cls, results: Iterable[tuple[bool, DriftEpisodes]]) -> "Recordings":
        """Recordings from experiments, each given as (whether its drift is slow, its result)."""
        made = cls([], [], [])
        for slow, result in results:
            for episode in result.episodes:
                kind = made.quiet if not episode.drift_s else made.slow if slow else made.abrupt
                kind.append(episode)
        return made

    def calm(self) -> Growth:
        """All that was recorded without drift: the quiet windows, and what came before each drift.

        Raises:
            ValueError: if no window was quiet from end to end.
        """
        if not self.quiet:
            raise ValueError("no recording without drift: the plan needs one of a single phase")
        quiet = [growth(one.readings) for one in self.quiet]
        drifting = map(_episode, (*self.abrupt, *self.slow))
        return joined([*quiet, *(one.growth.between(-np.inf, one.drift_s) for one in drifting)])


def growth(readings: Readings) -> Growth:
    """What the counters grew by between the readings of a window, on its clock."""
    return Growth.of(readings.at_s, readings.num_drafts, readings.num_accepted_tokens)


def lengths(episode: RecordedEpisode) -> pd.DataFrame:
    """One row per interval: at_s (its end), drafts, length (tokens a step, bonus token included)."""
    grown = growth(episode.readings)
    return pd.DataFrame(
        {"at_s": grown.end_s, "drafts": grown.drafts, "length": 1 + grown.accepted / grown.drafts}
    )


def e2e_medians(episode: RecordedEpisode, width_s: float) -> pd.DataFrame:
    """Medians of requests' E2E by when they were sent: `at_s`, the middle of each `width_s`, and `e2e_s`."""
    sent, e2e = pd.Series(episode.requests.start_s), pd.Series(episode.requests.e2e_s)
    medians = e2e.astype(float).groupby((sent // width_s).astype(int)).median()
    return pd.DataFrame({"at_s": (medians.index + 0.5) * width_s, "e2e_s": medians}).reset_index(drop=True)


def joined(stretches: Iterable[Growth]) -> Growth:
    """Stretches one after the other, as one recording whose clock rises."""
    parts, begin = [], 0.0
    for stretch in stretches:
        first = stretch.end_s[0] - 1.0 if stretch.intervals else 0.0  # some begin before their window
        parts.append(stretch._replace(end_s=stretch.end_s - first + begin))
        begin = float(max(parts[-1].end_s, default=begin))  # one that drafted nothing takes no time
    return Growth.joined(parts)


def interval_s(quiet: Growth) -> float:
    """From reading to reading: the median."""
    return float(np.median(np.diff(quiet.end_s)))


def compare(recordings: Recordings, replays: int = 100, days: float = 1.0) -> pd.DataFrame:
    """Each monitor at each of WITHIN_S (COMPARED), for drifts recorded live, abrupt and slow, and for drifts
    put together.

    Thresholds are chosen on all episodes of a kind; `found` and the delays are each episode's at that of the
    others, so that none is judged by what it helped to choose, and a monitor that finds none is left out. A
    replayed drift is blocks of the calm recordings, then blocks of what came after an abrupt drift. The false
    alarms of all rows are those in `days` of blocks of the calm recordings.
    """
    recorded = recordings.calm()
    reference, each_s = Reference.of(recorded), interval_s(recorded)
    blocks, rng = Blocks(max(1, round(BLOCK_S / each_s)), each_s), np.random.default_rng(0)
    longer = detection.resampled(recorded, round(days * detection.DAY_S / each_s), blocks, rng)
    quiet = Quiet(longer, each_s, recorded.intervals * each_s)
    groups = {name: [_episode(one) for one in getattr(recordings, name)] for name in ("abrupt", "slow")}
    if groups["abrupt"]:
        after = Growth.joined([e.growth.between(e.drift_s, np.inf) for e in groups["abrupt"]])
        length = round(2 * max(WITHIN_S) / each_s)
        groups["replayed"] = [detection.spliced(recorded, after, length, blocks, rng) for _ in range(replays)]
    rows = [
        _row(name, within_s, one)
        for name, episodes in groups.items()
        for within_s in WITHIN_S
        # a server under load may not answer: nothing is said where one's counters were not read in that time
        if episodes and all(e.growth.between(e.drift_s, e.drift_s + within_s).intervals for e in episodes)
        for one in detection.compare(MONITORS, reference, episodes, quiet, share=SHARE, within_s=within_s)
        if one.delays
    ]
    return pd.DataFrame(rows, columns=list(COMPARED))


def _episode(recorded: RecordedEpisode) -> Episode:
    return Episode(growth(recorded.readings), recorded.drift_s[0])


def _row(drift: str, within_s: float, one: detection.Detection) -> dict:
    seconds = [delay.seconds for delay in one.delays]
    return {
        "drift": drift, "within_s": within_s, "monitor": one.title, "threshold": one.threshold,
        "episodes": one.found.n, "found": one.found.value,
        "delay_s": float(np.median(seconds)), "delay_p90_s": float(np.quantile(seconds, 0.9)),
        "delay_drafts": float(np.median([delay.drafts for delay in one.delays])),
        "false_alarms": one.false_alarms_per_day.value, "estimate": one.false_alarms_per_day,
    }  # fmt: skip


def rolled_out(before: RecordedEpisode, after: RecordedEpisode) -> Episode:
    """The counters of one recording, then those of another server, as a scraper sees a roll-out.

    The new server counts from 0. Its drift begins with its first reading; how long both were down is not in
    it.
    """
    old, new = before.readings, after.readings
    start = next(i for i, drafts in enumerate(new.num_drafts) if drafts is not None)
    begin_s = old.at_s[-1] + interval_s(growth(old))
    readings = Readings(
        at_s=(*old.at_s, *(begin_s + at_s - new.at_s[start] for at_s in new.at_s[start:])),
        num_drafts=(*old.num_drafts, *_from_0(new.num_drafts[start:])),
        num_accepted_tokens=(*old.num_accepted_tokens, *_from_0(new.num_accepted_tokens[start:])),
    )
    return Episode(growth(readings), begin_s)


def _from_0(counts: Sequence[int | None]) -> list[int | None]:
    return [None if one is None or counts[0] is None else one - counts[0] for one in counts]


def rollouts(
    recordings: Recordings, after: Sequence[RecordedEpisode], compared: pd.DataFrame
) -> pd.DataFrame:
    """Each monitor (ROLLED) over roll-outs, at its calmest threshold for abrupt drifts in `compare`; where
    several are as calm, at the quickest.

    A quiet recording is followed by one of `after`, each taken once; delays are medians over those in which
    it fired.
    """
    calmest = compared[compared["drift"] == "abrupt"].sort_values(["false_alarms", "delay_s"])
    abrupt = calmest.drop_duplicates("monitor").set_index("monitor")["threshold"]
    if not after or abrupt.empty:
        return pd.DataFrame(columns=list(ROLLED))
    reference = Reference.of(recordings.calm())
    episodes = [rolled_out(*pair) for pair in zip(recordings.quiet, after, strict=False)]
    rows = []
    for monitor in MONITORS:
        at = float(abrupt[monitor.title])
        delays = [detection.delay(monitor, reference, episode, at) for episode in episodes]
        fired = np.array([delay for delay in delays if delay is not None]).reshape(-1, 2)
        middle = np.median(fired, axis=0) if len(fired) else (np.nan, np.nan)
        rows.append((monitor.title, at, len(episodes), len(fired), *middle))
    return pd.DataFrame(rows, columns=list(ROLLED))


def served(result: FallbackArms) -> pd.DataFrame:
    """One row per arm (SERVED), repeats together: what became of the requests, and how long they took.

    Of the lost, `broken` had begun to be answered. tokens_per_s is that of whole windows; in_flight counts
    requests under way at the moments of switching.
    """
    groups: dict[str, list[RoutedArm]] = {}
    for arm in result.arms:
        groups.setdefault(arm.arm, []).append(arm)
    rows = []
    for name, arms in groups.items():
        requests = [arm.episode.requests for arm in arms]
        e2e = np.concatenate([one.e2e_s for one in requests])
        ttft = np.concatenate([one.ttft_s for one in requests])
        sent = sum(one.sent for one in requests)
        rows.append({
            "arm": name, "repeats": len(arms), "sent": sent, "lost": sent - len(e2e),
            "broken": sum(arm.broken for arm in arms),
            "tokens_per_s": _tokens_per_s(requests),
            "e2e_p50_s": float(np.quantile(e2e, 0.5)), "e2e_p99_s": float(np.quantile(e2e, 0.99)),
            "ttft_p99_s": float(np.quantile(ttft, 0.99)),
            "switches": sum(len(arm.switches) for arm in arms),
            "in_flight": sum(sum(s.in_flight.values()) for arm in arms for s in arm.switches),
        })  # fmt: skip
    return pd.DataFrame(rows, columns=list(SERVED))


def gain(result: FallbackArms, over: str) -> Estimate:
    """Tokens per second with fallback in those of the arm `over`, repeat by repeat, with its interval."""
    return _ratio(result, over, lambda one: _tokens_per_s([one]))


def tail(result: FallbackArms, over: str) -> Estimate:
    """The p99 of E2E with fallback in that of the arm `over`; see `gain`."""
    return _ratio(result, over, lambda one: float(np.quantile(one.e2e_s, 0.99)))


def _ratio(result: FallbackArms, over: str, of: Callable[[Requests], float]) -> Estimate:
    by_arm = {(arm.arm, arm.repeat): of(arm.episode.requests) for arm in result.arms}
    repeats = sorted({repeat for _, repeat in by_arm})
    fallback, others = ([by_arm[name, repeat] for repeat in repeats] for name in ("fallback", over))
    return ratios.ratio_ci(fallback, others, unit_of_n="repeats")


def _tokens_per_s(windows: Sequence[Requests]) -> float:
    ends = [max(np.add(one.start_s, one.e2e_s)) for one in windows]
    return sum(sum(one.output_tokens) for one in windows) / sum(ends)
