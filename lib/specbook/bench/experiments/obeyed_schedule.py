"""Does the engine draft what a schedule says? K of its steps by counters, the cost of K = 0, and coming back.

A server with K by batch and one without speculation take turns at each batch. Counters are read while every
slot is taken, since a batch that drains has another K by right. At a batch on either side of a threshold the
counters show whether K goes to and fro. Then answers live through a burst in which nothing is drafted, and
are asked once more without it: was acceptance lost?
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import Self

import pandas as pd
from pydantic import Field, model_validator

from specbook.bench import greedy, traffic_phases
from specbook.bench.experiments import Work, register
from specbook.bench.traffic_phases import ClosedLoops, Phases, awake, in_turns
from specbook.config import draft_schedule
from specbook.config.schema import Speculation, Target
from specbook.engine import counters
from specbook.engine.base import Counters
from specbook.engine.client import Asked
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import Comeback, Counted, ObeyedSchedule, ScheduledBatch, SteadyCount
from specbook.stats import windows

POLL_S = 0.03
"""Between two looks at how far answers are: a step or two."""


class Thresholds(ClosedLoops):
    """A schedule, the batches to try it at, and a burst."""

    target: Target
    speculation: Speculation
    staying: int = Field(ge=1)
    """Answers that live through the burst; so few that they are drafted for."""
    burst: int = Field(ge=1)
    """Short answers that join them; with so many in a step nothing is drafted."""
    burst_tokens: int = Field(default=16, ge=1)
    stretch: int = Field(default=32, ge=1)
    """Tokens of each staying answer before the burst, and counted after it."""

    @model_validator(mode="after")
    def _has_thresholds(self) -> Self:
        rows, together = self.speculation.num_speculative_tokens_per_batch_size, self.staying + self.burst
        if rows is None:
            raise ValueError("speculation has no num_speculative_tokens_per_batch_size: give it one")
        drafted, most = (draft_schedule.at(rows, batch) for batch in (self.staying, together))
        if not drafted or most:
            raise ValueError(
                f"K is {drafted} at batch {self.staying} and {most} at {together}: choose `staying` where it "
                "is above 0, and `burst` so that it falls to 0"
            )
        if max(together, *self.concurrency) > self.target.max_num_seqs:
            raise ValueError(f"the target holds {self.target.max_num_seqs} sequences: ask for no more")
        return self


def _work(asked: Thresholds) -> Work:
    ways = (asked.speculation, None)
    each = [p for b in asked.concurrency for how in ways for p in asked.phases(b).points(asked.target, how)]
    return Work(starts=2, points=each * (asked.turns + 1))


@register("schedule", Thresholds, ObeyedSchedule, _work)
def obeyed_schedule(asked: Thresholds) -> ObeyedSchedule:
    """Turns at each batch, then the bursts.

    Raises:
        ConfigError: if the models cannot work.
        EngineError: if a server does not start or answer, or answers end too soon to count.
    """
    with ExitStack() as stack:
        servers = [_warm(stack, asked, how) for how in (asked.speculation, None)]
        batches = tuple(_batch(asked.phases(batch), asked.turns, servers) for batch in asked.concurrency)
        with awake(servers[0]):
            comebacks = tuple(_comeback(asked, servers[0], turn) for turn in range(asked.turns))
    return ObeyedSchedule(batches=batches, comebacks=comebacks)


def _warm(stack: ExitStack, asked: Thresholds, how: Speculation | None) -> Server:
    """A server that has seen every batch, paused."""
    server = stack.enter_context(Server(asked.target, how))
    for batch in asked.concurrency:
        traffic_phases.warm(asked.phases(batch), server)
    server.pause()
    return server


def _batch(how: Phases, turns: int, servers: Sequence[Server]) -> ScheduledBatch:
    scheduled, plain = in_turns(servers, turns, lambda server, turn: _turn(server, how, turn))
    return ScheduledBatch(concurrency=how.concurrency, scheduled=tuple(scheduled), plain=tuple(plain))


def _turn(server: Server, how: Phases, turn: int) -> SteadyCount:
    """What was counted between the first and the last reading in which every slot was taken."""
    readings: list[tuple[float, Counters]] = []
    result, step_s = traffic_phases.timed(
        server, how, turn, lambda: readings.append((time.perf_counter(), server.counters()))
    )
    rows = pd.DataFrame({"start_s": result["start_times"], "e2e_s": result["latencies"]})
    steady = windows.steady(rows, how.concurrency)
    inside = [one for one in readings if steady and steady.start_s <= one[0] <= steady.end_s]
    if len(inside) < 2:
        raise EngineError(
            f"counters were read {len(inside)} times while {how.concurrency} slots were taken. To fix: raise "
            "requests_per_sequence"
        )
    (began_s, first), (ended_s, last) = inside[0], inside[-1]
    return SteadyCount(**dict(_count(first, last)), seconds=ended_s - began_s, step_s=step_s)


def _count(first: Counters, last: Counters) -> Counted:
    grown = counters.delta(first, last)
    return Counted(server=grown.server, spec_decode=grown.spec_decode)


def _comeback(asked: Thresholds, server: Server, turn: int) -> Comeback:
    both = asked.phases(1).model_copy(update={"num_requests": asked.staying + asked.burst})
    turns = [one.turns() for one in both.prompts(turn)]
    staying, others = turns[: asked.staying], turns[asked.staying :]
    burst, place = _parts(asked, server, staying, others)
    alone, _ = _parts(asked, server, staying, place=place)
    return Comeback(burst=burst, alone=alone)


def _parts(
    asked: Thresholds, server: Server, staying: Sequence[Asked], others: Sequence[Asked] = (), place: int = 0
) -> tuple[tuple[Counted, ...], int]:
    """Counts before, during and just after the burst of `others`; and tokens of the staying ones at its end.

    Without others the counts end at the same tokens, the second at `place`.
    """
    start, stretch = server.counters(), asked.stretch * len(staying)
    every = len(staying) + len(others)
    with ThreadPoolExecutor(len(staying)) as pool:
        answers = pool.map(
            lambda one: greedy.ask(server, one, asked.max_tokens, ignore_eos=True), staying
        )  # past their ends, so that they outlive the burst
        before = _once(server, start, stretch, len(staying))
        short = greedy.answers(server, others, asked.burst_tokens, len(others)) if others else []
        beside = sum(len(one.token_ids) for one in short)
        during = _once(server, start, place, every)
        place = counters.delta(start, during).server.generation_tokens - beside
        after = _once(server, start, place + beside + stretch, every)
        list(answers)
    return tuple(_count(*both) for both in pairwise((start, before, during, after))), place


def _once(server: Server, start: Counters, tokens: int, asked: int) -> Counters:
    """The counters once they have so many tokens more than `start`; EngineError if all is answered first."""
    while (grown := counters.delta(start, now := server.counters()).server).generation_tokens < tokens:
        if grown.requests_finished >= asked:
            raise EngineError(
                f"answers ended at {grown.generation_tokens} of {tokens} tokens. To fix: raise max_tokens"
            )
        time.sleep(POLL_S)
    return now
