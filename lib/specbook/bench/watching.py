"""A running server's counters, watched for a fall of acceptance: one interval after the other."""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import numpy as np

from specbook.bench.acceptance_probe import Asked, shown
from specbook.engine import counters
from specbook.engine.base import Counters
from specbook.errors import ConfigError, EngineError
from specbook.stats import self_starting
from specbook.stats.monitors import Growth, ShiryaevRoberts

MONITOR = ShiryaevRoberts()
"""Of the chapter's monitors the one whose threshold follows from the rate of false alarms."""


class Rule(NamedTuple):
    """When it alarms."""

    intervals_per_alarm: float
    """Between false alarms, on average at least: where intervals are independent, and normal."""
    learned: int = 30
    """Intervals that it learns from before it judges any."""
    expected: float | None = None
    """Acceptance length, tokens a step; None for that of all intervals before."""

    @property
    def threshold(self) -> float:
        """Of MONITOR's statistic."""
        return math.log(self.intervals_per_alarm)


class Interval(NamedTuple):
    """What a reading of the counters says of the time since the last one."""

    at: str
    """UTC."""
    state: Literal["learning", "as usual", "alarm", "idle", "restarted"]
    drafts: int = 0
    length: float | None = None
    """Acceptance length, tokens a step."""
    statistic: float | None = None

    def line(self, rule: Rule) -> str:
        """`2026-11-26T07:00:00+00:00 as usual, length 2.91, 5321 drafts, statistic 1.2 of 9.2`."""
        words = [f"{self.at} {self.state}"]
        words += [] if self.length is None else [f"length {self.length:.2f}", f"{self.drafts} drafts"]
        words += [] if self.statistic is None else [f"statistic {self.statistic:.1f} of {rule.threshold:.1f}"]
        return ", ".join(words)


def watch(server: Asked, rule: Rule, ticks: Iterable[object]) -> Iterator[Interval]:
    """An interval for each tick; ends with the ticks, or with an alarm. What spans a restart is left out.

    Raises:
        ConfigError: if the server shows no counters, does not draft, or its acceptance never varies.
        EngineError: if its counters can no longer be read.
    """
    before, grown = _drafting(server), list[tuple[int, int]]()
    for _ in ticks:
        now = _drafting(server)
        (drafts, accepted), before = _grown(before, now), now
        at = datetime.now(UTC).isoformat(timespec="seconds")
        if not drafts:
            yield Interval(at, "idle" if drafts == 0 else "restarted")
            continue
        grown.append((drafts, accepted))
        statistic = _statistic(grown, rule) if len(grown) > rule.learned else None
        state = "learning" if statistic is None else "alarm" if statistic >= rule.threshold else "as usual"
        yield Interval(at, state, drafts, 1 + accepted / drafts, statistic)
        if state == "alarm":
            return


def _drafting(server: Asked) -> Counters:
    if (now := shown(server)).spec_decode is None:
        raise ConfigError(f"{server.client.url} does not draft: there is nothing to accept. Give it a draft")
    return now


def _grown(before: Counters, now: Counters) -> tuple[int | None, int]:
    """Drafts, None where the server was restarted in between, and accepted draft tokens."""
    try:
        counted = counters.delta(before, now).spec_decode
    except EngineError:
        return None, 0
    return (counted.num_drafts, counted.num_accepted_tokens) if counted else (0, 0)


def _statistic(grown: list[tuple[int, int]], rule: Rule) -> float:
    growth = Growth(np.arange(1.0, len(grown) + 1), *np.array(grown, dtype=float).T)
    usual = None if rule.expected is None else rule.expected - 1
    try:
        return float(MONITOR.statistics(self_starting.scores(growth, rule.learned, usual))[-1])
    except ValueError as error:
        raise ConfigError(f"{error}. To fix: watch traffic of more than one kind") from error
