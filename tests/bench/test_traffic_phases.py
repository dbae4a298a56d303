"""Traffic in phases: which domain is asked when, and what a window's result becomes."""

import math
from collections import Counter

import pytest
from pydantic import ValidationError

from specbook.bench import traffic_phases
from specbook.bench.traffic_phases import Phases, Reader
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Target
from specbook.engine.base import Counters
from specbook.errors import EngineError
from specbook.records.run import ServerCounters, SpecDecodeCounters

TARGET = Target(name="t", model="org/t", max_model_len=64)


@pytest.fixture(autouse=True)
def few_prompts(monkeypatch):
    def of(traffic):
        return [Prompt(id=f"{traffic.domain}{i}", prompt="x", domain=traffic.domain) for i in range(5)]

    monkeypatch.setattr(traffic_phases.files, "for_traffic", of)


def how(*parts, **more) -> Phases:
    return Phases(**{"phases": parts, "num_requests": 300, "concurrency": 4, "max_tokens": 8} | more)


def asked(made: Phases, seed: int = 0) -> list[str]:
    return [prompt.domain for prompt in made.prompts(seed)]


def test_an_abrupt_drift_happens_between_two_requests():
    found = asked(how(("json",), ("chat", "code")))
    assert set(found[:150]) == {"json"}
    assert set(found[150:]) == {"chat", "code"}


def test_a_slow_drift_takes_its_share_of_the_phase():
    found = asked(how(("json",), ("chat",), ramp=0.5, num_requests=2000))
    assert "chat" not in found[:1000]
    thirds = [Counter(found[start : start + 100])["chat"] for start in (1000, 1200, 1400, 1500)]
    assert 0 < thirds[0] < 25 < thirds[1] < 75 < thirds[2] < thirds[3] == 100


def test_a_way_and_back_are_three_phases():
    made = how(("json",), ("chat",), ("json",))
    assert made.starts() == [0, 100, 200]
    assert [asked(made)[i] for i in (99, 100, 199, 200)] == ["json", "chat", "chat", "json"]


def test_a_window_is_estimated_by_its_parts():
    made = how(("json", "json", "code"), ("chat",), request_rate_per_s=2.0, concurrency=None)
    parts = made.points(TARGET, None)
    assert [(one.traffic.domain, one.load.num_requests) for one in parts] == [
        ("json", 50), ("json", 50), ("code", 50), ("chat", 150),
    ]  # fmt: skip
    assert {one.load.label for one in parts} == {"Poisson 2/s"}
    assert {one.traffic.max_tokens for one in parts} == {8}


def test_each_seed_draws_its_own_prompts_and_the_same_again():
    made = how(("json",))
    first, again, other = ([p.id for p in made.prompts(seed)] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"phases": ()}, "at least 1"),
        ({"phases": ((),)}, "at least 1"),
        ({"num_requests": 1}, "too few for 2 phases"),
        ({"num_requests": 10**12}, "less than or equal to 1000000"),
        ({"request_rate_per_s": math.inf}, "finite number"),
        ({"ramp": 2}, "ramp"),
        ({"concurrency": None}, "give `concurrency` .* or `request_rate_per_s`"),
        ({"request_rate_per_s": 2.0}, "and not both"),
    ],
)
def test_phases_that_cannot_be_are_refused(wrong, why):
    with pytest.raises(ValidationError, match=why):
        how(("a",), ("b",), **wrong)


# readings


def counted(drafts: int) -> Counters:
    server = ServerCounters(
        prompt_tokens=0, generation_tokens=0, requests_finished=0, prefix_cache_hits=0, preemptions=0,
        queue_time_s=0,
    )  # fmt: skip
    spec = SpecDecodeCounters(
        num_drafts=drafts, num_draft_tokens=3 * drafts, num_accepted_tokens=2 * drafts,
        num_accepted_tokens_per_pos=(drafts, drafts, 0),
    )  # fmt: skip
    return Counters(server, spec)


@pytest.mark.parametrize("gone", [EngineError("gone"), ValueError("half a page")])
def test_counters_are_read_in_time_and_gaps_stay(monkeypatch, gone):
    ticks = iter([0.0, 100.0, 100.4, 100.8, 101.6, 102.2])
    monkeypatch.setattr(traffic_phases.time, "perf_counter", ticks.__next__)
    answers = iter([counted(5), gone, counted(9)])

    def read():
        if isinstance(found := next(answers), Exception):
            raise found
        return found

    reader = Reader(read, period_s=1.0)
    assert [reader() for _ in range(5)] == [True, False, True, True, False]
    found = reader.readings(zero_s=99.0)
    assert found.at_s == (1.0, 1.8, 2.6)
    assert found.num_drafts == (5, None, 9)
    assert found.num_accepted_tokens == (10, None, 18)


def result(errors: list[str]) -> dict:
    n = len(errors)
    return {
        "start_times": [50.0 + i for i in range(n)], "ttfts": [0.1] * n, "latencies": [1.0] * n,
        "output_lens": [7] * n, "errors": errors,
    }  # fmt: skip


def test_lost_requests_are_missing_from_what_was_answered():
    made = traffic_phases.episode(
        how(("a",), ("b",), num_requests=4), result(["", "reset", "", ""]), Reader(dict, 1)
    )
    assert made.requests.start_s == (0.0, 2.0, 3.0)
    assert made.requests.sent == 4
    assert made.drift_s == (2.0,)


def test_nothing_answered_is_an_error_that_quotes_the_first():
    with pytest.raises(EngineError, match="none of 2 requests was answered: reset by peer"):
        traffic_phases.episode(
            how(("a",), num_requests=2), result(["x\nreset by peer\n", "y"]), Reader(dict, 1)
        )
