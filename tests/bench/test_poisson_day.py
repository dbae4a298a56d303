"""A day of traffic: which servers it starts, what each is sent, and what is refused before any starts."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from pydantic import ValidationError

import factories
from specbook import config
from specbook.bench import experiments
from specbook.bench.experiments import poisson_day
from specbook.bench.experiments.poisson_day import Day
from specbook.bench.traffic_phases import WARM_SEED
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Traffic
from specbook.errors import EngineError
from specbook.records.experiment_results import OpenLoopRequests

ROWS = ((1, 4, 5), (5, 32, 0))
FIXED = [factories.eagle3(num_speculative_tokens=k) for k in (1, 5)]
RISING = factories.eagle3(num_speculative_tokens_per_batch_size=((1, 8, 1), (9, 32, 5)))
SCHEDULE = "EAGLE-3 K=5 from batch 1, 0 from 5"


def asked(**more):
    return Day.model_validate(
        {
            "target": factories.target(max_num_seqs=32),
            "speculations": [*FIXED, factories.eagle3(num_speculative_tokens_per_batch_size=ROWS)],
            "domains": ("json",), "max_tokens": 40, "restarts": 2, "seed": 7,
            "segments": [{"rate_per_s": 1, "duration_s": 3}, {"rate_per_s": 6, "duration_s": 3}], **more,
        }
    )  # fmt: skip


class Served:
    """A server that counts nothing."""

    started: ClassVar[list] = []

    def __init__(self, target, speculation):
        self.target, self.speculation = target, speculation
        self.client = SimpleNamespace(url="http://127.0.0.1:9")
        Served.started.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def counters(self):
        return None

    def diagnosis(self, error):
        return f"{error}, and its last words"


@pytest.fixture
def sent(monkeypatch):
    """(server, segments, seed) of each load; answers are as `outcome` says."""
    loads, answer = [], SimpleNamespace(outcome="whole", loads=[])

    class Load:
        def __init__(self, url, model, segments, prompts, max_tokens, seed):
            loads.append((Served.started[-1], segments, seed, [one.id for one in prompts], max_tokens))

        def start(self):
            pass

        def join(self):
            return OpenLoopRequests(
                sent_s=(0.0,), ttft_s=(0.1,), e2e_s=(0.5,), output_tokens=(9,), outcome=(answer.outcome,),
                errors={} if answer.outcome == "whole" else {"status 400": 1},
            )  # fmt: skip

    Served.started.clear()
    answer.loads = loads
    monkeypatch.setattr(poisson_day, "Server", Served)
    monkeypatch.setattr(poisson_day, "OpenLoop", Load)
    monkeypatch.setattr(
        poisson_day.prompt_files, "for_traffic", lambda of: [Prompt(id=of.domain, prompt="x")]
    )
    monkeypatch.setattr(poisson_day.counters, "settled", lambda read, before, finished: finished)
    monkeypatch.setattr(poisson_day.counters, "delta", lambda *_: SimpleNamespace(spec_decode=None))
    return answer


def test_each_restart_has_every_arm_once(sent):
    arms = poisson_day.day(asked()).arms
    names = ["EAGLE-3 K=1", "EAGLE-3 K=5", SCHEDULE, "baseline"]
    assert [one.restart for one in arms] == [0] * 4 + [1] * 4
    first, second = ([one.arm for one in arms[place : place + 4]] for place in (0, 4))
    assert sorted(first) == sorted(second) == names
    assert first != second  # an order of its own


def test_arms_of_a_restart_are_sent_the_same(sent):
    poisson_day.day(asked())
    days = [load[1:] for load in sent.loads[1::2]]
    assert all(day[1:] == (7 + place // 4, ["json"], 40) for place, day in enumerate(days))
    assert {tuple(day[0]) for day in days} == {asked().segments}


def test_every_server_is_warmed_at_the_highest_rate(sent):
    poisson_day.day(asked())
    for (warmed, (segment,), seed, *_), (server, *_) in zip(sent.loads[::2], sent.loads[1::2], strict=True):
        assert (warmed, segment.rate_per_s, seed) == (server, 6, WARM_SEED)


def test_a_server_that_answers_nothing_ends_the_day(sent):
    sent.outcome = "refused"
    with pytest.raises(EngineError, match=r"answered no request before its day: \{'status 400': 1\}, and"):
        poisson_day.day(asked())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"speculations": FIXED}, "no speculation has num_speculative_tokens_per_batch_size: give one its"),
        ({"speculations": [RISING, RISING]}, "speculations has one of them twice: name it once"),
        ({"segments": [{"rate_per_s": 0, "duration_s": 3}]}, "no segment has a rate_per_s above 0"),
        ({"prompts": {"chat": "chat.jsonl"}}, "prompts names chat, and domains does not: add it there"),
        ({"max_tokens": 512}, "max_tokens 512 leaves no room for a prompt in 512: lower it"),
    ],
)
def test_a_day_that_compares_nothing_is_refused(wrong, why):
    with pytest.raises(ValidationError, match=why):
        asked(**wrong)


def test_a_domain_may_have_prompts_of_its_own():
    first, second = asked(domains=("json", "other"), prompts={"other": "other.jsonl"}).traffic()
    assert (first, second.prompts) == (Traffic(domain="json"), "other.jsonl")


@pytest.mark.parametrize(
    ("chapter", "group"), [*(("10_schedule", one) for one in config.GROUPS), ("appendix_schedule", "full")]
)
def test_the_plan_asks_for_a_day(chapter, group):
    plan = config.load(chapter, "cpu", group)
    experiments.check(plan)
    made = Day.model_validate(plan.experiments[-1].parameters)
    sweep, *_ = plan.sweeps
    assert set(sweep.speculations()) & set(made.speculations)
    rates = [one.rate_per_s for one in made.segments]
    assert rates[0] == rates[-1] < max(rates)  # it rises and falls
