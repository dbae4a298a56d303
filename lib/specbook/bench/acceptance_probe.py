"""What a running server accepts: of prompts one after the other, each with the counters it alone has moved;
and of all its traffic, watched for a fall.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Literal, NamedTuple

import numpy as np

from specbook.config.prompt_files import Prompt
from specbook.engine import counters
from specbook.engine.base import Counters
from specbook.engine.client import output_tokens
from specbook.engine.running import Running
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError, RefusedError
from specbook.records.experiment_results import Probed
from specbook.stats.monitors import Growth, ShiryaevRoberts, self_starting_scores

MOST_REFUSED = 5
"""Prompts that a server refuses, one after the other, until nothing but refusals is expected of it."""
MONITOR = ShiryaevRoberts()
"""The one of the chapter's monitors whose threshold follows from the rate of false alarms."""
Asked = Server | Running
"""A server of ours, or one that runs already."""


def interleaved(prompts: Sequence[Prompt], seed: int, unnamed: str) -> list[Prompt]:
    """A prompt of each domain, then a second of each: wherever one stops, all domains were asked alike.

    Prompts without a domain get the one called `unnamed`.
    """
    shuffled = [p if p.domain else p.model_copy(update={"domain": unnamed}) for p in prompts]
    random.Random(seed).shuffle(shuffled)
    turns: dict[str | None, Iterator[int]] = defaultdict(count)
    return sorted(shuffled, key=lambda prompt: next(turns[prompt.domain]))


def probe(
    server: Asked,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Probed]:
    """Ask prompts in their order until they or the seconds are spent; the last one begun is finished.

    Raises:
        ConfigError: if the server shows no counters, or does not draft.
        EngineError: if it stops answering, refuses one prompt after the other, or its counters are not of its
            answers.
    """
    read_counters(server)
    refused, until = 0, clock() + seconds
    for prompt in prompts:
        if clock() >= until:
            return
        probed = _ask(server, prompt, max_tokens, clock)
        refused = refused + 1 if probed.refused else 0
        if refused == MOST_REFUSED:
            raise EngineError(f"{refused} prompts on end were refused, the last with: {probed.refused}")
        yield probed


def read_counters(server: Asked) -> Counters:
    """What it has counted; raises ConfigError if it does not show that."""
    counted = server.counters()
    if counted is None:
        raise ConfigError(f"{server.client.url} does not show its counters: nothing tells what it accepts")
    if counted.lacks:
        raise ConfigError(f"{server.client.url}: its counters lack {counted.lacks}")
    return counted


def _ask(server: Asked, prompt: Prompt, max_tokens: int, clock: Callable[[], float]) -> Probed:
    who = {"prompt_id": prompt.id, "domain": prompt.domain}
    before, started = server.counters(), clock()
    try:
        answer = server.client.chat(prompt.turns(), max_tokens)
    except RefusedError as error:
        return Probed(**who, output_tokens=0, e2e_s=0.0, spec_decode=None, refused=str(error))
    took = {"output_tokens": output_tokens(answer), "e2e_s": clock() - started}
    counted = counters.delta(before, counters.settled(server.counters, before, finished=1))
    if counted.spec_decode is None:
        raise ConfigError(f"{server.client.url} does not draft: there is nothing to accept. Give it a draft")
    if why := counters.not_of(counted, took["output_tokens"]):
        raise EngineError(f"{server.client.url}: {why}")
    alone = counted.server.requests_finished in (1, None)
    alone = alone and counted.server.generation_tokens == took["output_tokens"]  # else others are under way
    return Probed(**who, **took, spec_decode=counted.spec_decode if alone else None)


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
    if (now := read_counters(server)).spec_decode is None:
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
        return float(MONITOR.statistics(self_starting_scores(growth, rule.learned, usual))[-1])
    except ValueError as error:
        raise ConfigError(f"{error}. To fix: watch traffic of more than one kind") from error
