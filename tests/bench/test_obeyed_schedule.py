"""Whether a schedule is obeyed: what is counted while every slot is taken, and before and after a burst."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

import factories
from specbook import config
from specbook.analysis import schedule
from specbook.bench import experiments
from specbook.bench.experiments import obeyed_schedule
from specbook.bench.experiments.obeyed_schedule import Thresholds
from specbook.config import draft_schedule
from specbook.config.prompt_files import Prompt
from specbook.engine.base import Counters
from specbook.errors import EngineError
from specbook.records.experiment_results import ObeyedSchedule, ScheduledBatch, SteadyCount
from specbook.records.run import ServerCounters, SpecDecodeCounters

ROWS = ((1, 4, 5), (5, 8, 3), (9, 32, 0))
ACCEPTED = 2


class Engine:
    """Counts as an engine does that drafts by ROWS; of answers that saw K = 0 it accepts `after` tokens."""

    def __init__(self, after=ACCEPTED):
        self.accepted, self.after, self.asked = ACCEPTED, after, []
        self.tokens = self.finished = self.drafts = self.drafted = 0
        self.per_pos = [0] * 5

    def step(self, requests):
        k = draft_schedule.at(ROWS, requests)
        self.accepted = self.accepted if k else self.after
        held = min(self.accepted, k)
        self.tokens += requests * (1 + held)
        self.drafts += requests if k else 0
        self.drafted += requests * k
        self.per_pos = [n + requests * (i < held) for i, n in enumerate(self.per_pos)]

    def read(self):
        server = ServerCounters(
            prompt_tokens=0, generation_tokens=self.tokens, requests_finished=self.finished,
            prefix_cache_hits=0, preemptions=0, queue_time_s=0,
        )  # fmt: skip
        drafted = SpecDecodeCounters(
            num_drafts=self.drafts, num_draft_tokens=self.drafted, num_accepted_tokens=sum(self.per_pos),
            num_accepted_tokens_per_pos=tuple(self.per_pos),
        )  # fmt: skip
        return Counters(server, drafted)

    def ask(self):
        self.asked.append(1)
        self.accepted = ACCEPTED

    @property
    def staying(self):
        return (len(self.asked) - 1) % 4 + 1 if self.asked else 0

    def counters(self):
        """As if a step had passed since the last look."""
        if self.staying:
            self.step(self.staying)
        return self.read()


def asked(rows=ROWS, **more):
    return Thresholds(
        **{
            "target": factories.target(max_num_seqs=32), "domain": "json", "concurrency": (1, 8), "turns": 2,
            "speculation": factories.eagle3(num_speculative_tokens_per_batch_size=rows),
            "requests_per_sequence": 8, "max_tokens": 192, "staying": 4, "burst": 28, **more,
        }
    )  # fmt: skip


def counted(*steps, step_s=0.01):
    engine = Engine()
    before = engine.read()
    for requests in steps:
        engine.step(requests)
    count = obeyed_schedule._count(before, engine.read())
    return SteadyCount(**dict(count), seconds=len(steps) * step_s, step_s=step_s)


def batch(concurrency, *steps, slower=1.0):
    turns = (counted(*steps, step_s=0.01 * slower), counted(*steps, step_s=0.02 * slower))
    plain = (counted(*[32] * 4), counted(*[32] * 4, step_s=0.02))
    return ScheduledBatch(concurrency=concurrency, scheduled=turns, plain=plain)


def test_k_is_counted_at_each_batch():
    batches = batch(1, 1, 1), batch(8, 8, 8), batch(32, *[32] * 4, slower=1.25)
    found = schedule.by_batch(ROWS, ObeyedSchedule(batches=batches, comebacks=()))
    assert list(found["scheduled_k"]) == [5, 3, 0]
    assert list(found["drafted_k"].fillna(0)) == [5, 3, 0]
    assert list(found["share"]) == [1, 1, 0]
    assert list(found["length"].fillna(0)) == [1 + ACCEPTED, 1 + ACCEPTED, 0]
    zero = found.iloc[-1]
    assert (zero["step"].value, zero["speed"].value) == pytest.approx((1.25, 0.8))
    assert zero["step"].counted == "2 turns"


def test_a_k_that_goes_to_and_fro_is_a_share():
    result = ObeyedSchedule(batches=(batch(9, 9, 8, 9, 8),), comebacks=())
    (row,) = schedule.by_batch(ROWS, result).itertuples()
    assert row.share == pytest.approx(16 / 34)
    assert (row.scheduled_k, row.drafted_k) == (0, 3)


def turn(monkeypatch, at_s, concurrency=2):
    """A turn whose counters are read at these times, a step of two requests before each."""
    engine, clock = Engine(), iter(at_s)
    monkeypatch.setattr(obeyed_schedule.time, "perf_counter", lambda: next(clock))
    engine.counters = engine.read

    def timed(server, how, seed, watch):
        for _ in at_s:
            engine.step(2)
            watch()
        # Three waves of two: all slots are taken from the end of the first to the start of the last.
        return {"start_times": [0, 0, 2, 2, 4, 4], "latencies": [2.0] * 6}, 0.01

    monkeypatch.setattr(obeyed_schedule.traffic_phases, "timed", timed)
    return obeyed_schedule._turn(engine, asked().phases(concurrency), 0)


def test_only_full_slots_are_counted(monkeypatch):
    found = turn(monkeypatch, [1.0, 2.5, 3.0, 3.5, 4.5])
    assert found.seconds == 1.0
    assert found.spec_decode.num_drafts == 2 * 2
    assert found.server.generation_tokens == 2 * 2 * (1 + ACCEPTED)


def test_a_turn_of_too_few_readings_is_refused(monkeypatch):
    with pytest.raises(EngineError, match=r"read 1 times .*\. To fix: raise requests_per"):
        turn(monkeypatch, [1.0, 3.0, 4.5])


@pytest.fixture
def answering(monkeypatch):
    """Answers in which each look at the counters is a step, and the burst is one step for each token."""

    def burst(server, prompts, max_tokens, concurrency):
        for _ in range(max_tokens):
            server.step(server.staying + len(prompts))
        server.finished += len(prompts)
        return [SimpleNamespace(token_ids=range(max_tokens)) for _ in prompts]

    class Inline(ThreadPoolExecutor):
        def map(self, ask, each):
            return [*map(ask, each)]

    prompts = [Prompt(id="p", prompt="x")]
    monkeypatch.setattr(obeyed_schedule, "POLL_S", 0)
    monkeypatch.setattr(obeyed_schedule, "ThreadPoolExecutor", Inline)
    monkeypatch.setattr(obeyed_schedule.traffic_phases.files, "for_traffic", lambda traffic: prompts)
    monkeypatch.setattr(obeyed_schedule.greedy, "ask", lambda server, *_, ignore_eos: server.ask())
    monkeypatch.setattr(obeyed_schedule.greedy, "answers", burst)


@pytest.mark.parametrize(("after", "ratio"), [(ACCEPTED, 1), (ACCEPTED - 1, 2 / 3)])
def test_acceptance_after_a_burst_is_compared(answering, after, ratio):
    both = [obeyed_schedule._comeback(asked(), Engine(after), turn) for turn in (0, 1)]
    found = schedule.comebacks(ObeyedSchedule(batches=(), comebacks=tuple(both))).set_index("part")
    assert found.loc["before", "length"] == found.loc["before", "length_alone"] == 1 + ACCEPTED
    assert found.loc["during", "share"] < 0.1 < 0.9 < found.loc["during", "share_alone"]
    assert found.loc["after", "share"] == 1
    assert found.loc["after", "estimate"].value == pytest.approx(ratio)


def test_both_runs_are_counted_at_the_same_tokens(answering):
    found = obeyed_schedule._comeback(asked(), Engine(), 0)
    beside = 28 * 16
    tokens = [[part.server.generation_tokens for part in how] for how in (found.burst, found.alone)]
    assert np.abs(np.cumsum(tokens[0]) - [0, beside, beside] - np.cumsum(tokens[1])).max() <= 4 * 3


def test_answers_that_end_too_soon_are_said(answering):
    engine = Engine()
    start = engine.read()
    engine.finished = 4
    with pytest.raises(EngineError, match=r"ended at 0 of 9 tokens\. To fix: raise max_tokens"):
        obeyed_schedule._once(engine, start, 9, 4)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"speculation": factories.eagle3()}, "has no num_speculative_tokens_per_batch_size: give it one"),
        ({"staying": 9}, "K is 0 at batch 9 and 0 at 37"),
        ({"burst": 2}, "K is 5 at batch 4 and 3 at 6"),
        ({"concurrency": (64,)}, "the target holds 32 sequences"),
    ],
)
def test_what_shows_no_threshold_is_refused(wrong, why):
    with pytest.raises(ValidationError, match=why):
        asked(**wrong)


@pytest.mark.parametrize("group", config.GROUPS)
def test_the_plan_asks_for_both_sides_of_a_threshold(group):
    one, _ = config.load("10_schedule", "cpu", group).experiments
    made = Thresholds.model_validate(one.parameters)
    ks = {draft_schedule.at(ROWS, size) for size in made.concurrency}
    assert {0, 5} <= ks
    assert 9 in made.concurrency
    assert experiments.work(one).starts == 2
