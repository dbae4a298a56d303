"""The experiments with a mixture of experts: steps are cut and counted, noise arrives, errors are said."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import synthetic
from specbook import config as plans
from specbook.analysis import moe_tables
from specbook.bench import experiments, greedy
from specbook.bench.experiments import mixture_of_experts
from specbook.bench.experiments.mixture_of_experts import Noise, Steps, count
from specbook.bench.greedy import Answer
from specbook.config import Chapter
from specbook.engine.base import Counters
from specbook.errors import ConfigError
from specbook.records.run import ServerCounters, SpecDecodeCounters

TARGET = {"name": "pocket-moe", "model": "models/pocket-moe", "max_model_len": 512}
NOISE = {
    "target": TARGET, "router_noise": 0.5, "domains": ["json", "code"], "prompts_per_domain": 3,
    "max_tokens": 16,
    "speculation": {"method": "eagle3", "model": "models/head", "num_speculative_tokens": 3},
}  # fmt: skip


def stream(*tokens):
    """Each token's experts, of four, in one layer."""
    found = np.zeros((len(tokens), 1, 4), bool)
    for position, taken in enumerate(tokens):
        found[position, 0, list(taken)] = True
    return found


def test_steps_are_cut_one_after_another():
    streams = [stream({0, 1}, {0, 1}, {2, 3}, {2, 3}), stream({0, 1}, {1, 2}), stream({0}, {0}, {1})]
    assert count(streams, 1, 2).value == pytest.approx((2 + 3 + 1) / 3)
    found = count(streams, 1, 3)
    assert (found.value, found.n) == (pytest.approx((4 + 2) / 2), 2)
    assert count(streams, 1, 4) is None  # one answer is long enough, and makes no interval


def test_a_batch_is_any_choice_of_answers():
    streams = [stream({0, 1}, {2, 3})] * 3
    found = count(streams, 2, 1)
    assert found.value == pytest.approx((2 + 4) / 2)  # both at the same place, or at different ones
    assert (found.low, found.high) == pytest.approx((3, 3))
    assert count(streams, 3, 1) is None


def test_the_interval_is_wider_where_answers_differ():
    rng = np.random.default_rng(0)
    alike, unlike = (
        [stream(*[set(rng.choice(4, size, replace=False)) for _ in range(8)]) for size in sizes]
        for sizes in ([2] * 12, [1, 2, 3] * 4)
    )
    spans = [(found := count(one, 4, 2)).high - found.low for one in (alike, unlike)]
    assert spans[0] < spans[1]


def test_answers_of_no_record_cannot_be_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    monkeypatch.setattr(mixture_of_experts.provenance, "model_sha256", lambda *_: "0")
    asked = Steps(target=TARGET, domains=("json",), num_speculative_tokens=(3,), concurrency=(1,))
    with pytest.raises(
        ConfigError, match=r"no recorded answers of pocket-moe to 'json'.*measure the chapter's sweep"
    ):
        mixture_of_experts.recorded(asked, "json")


def test_only_good_answers_to_todays_prompts_count(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    plan = plans.load("05_moe", "cpu", "quick")
    synthetic.write(plan)
    monkeypatch.setattr(mixture_of_experts, "detect", lambda: synthetic.HARDWARE)
    monkeypatch.setattr(mixture_of_experts.provenance, "model_sha256", lambda *_: "0" * 64)
    monkeypatch.setattr(mixture_of_experts.provenance, "prompts_sha256", lambda traffic: today)
    rows = [("a", "one", None), ("b", "", "timed out"), ("a", "two", None), ("c", "three", "")]
    answered = pd.DataFrame(rows, columns=["prompt_id", "text", "error"])
    monkeypatch.setattr(mixture_of_experts.records, "requests", lambda run: answered)
    known = [SimpleNamespace(id=name, turns=lambda name=name: [{"content": name}]) for name in "abc"]
    monkeypatch.setattr(mixture_of_experts.prompt_files, "for_traffic", lambda traffic: known)
    asked = Steps(
        target=plan.parts()[0].target, domains=("json",), num_speculative_tokens=(3,), concurrency=(1,)
    )
    today = "0" * 64
    assert mixture_of_experts.recorded(asked, "json") == [
        ([{"content": "a"}], "one"),
        ([{"content": "c"}], "three"),
    ]
    today = "edited since"
    with pytest.raises(ConfigError, match="today's weights and prompts"):
        mixture_of_experts.recorded(asked, "json")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"router_noise": -1.0}, "router_noise"),
        ({"head_noise": -1.0}, "head_noise"),
        ({"prompts_per_domain": 0}, "prompts_per_domain"),
        ({"strength": 1.0}, "strength"),
    ],
)
def test_parameters_that_cannot_be_are_refused(changed, said):
    asked = {"name": "router_noise", "parameters": {**NOISE, **changed}}
    chapter = Chapter(chapter="05_moe", hardware="cpu", group="full", experiments=(asked,))
    with pytest.raises(ConfigError, match=said):
        experiments.check(chapter)


class Served:
    """A server that drafts three tokens a step and has one of them accepted, four steps an answer."""

    started = None

    def __init__(self, target, speculation):
        Served.started = target
        self.steps = self.answers = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def counters(self):
        server = ServerCounters(prompt_tokens=0, generation_tokens=0, requests_finished=self.answers,
                                prefix_cache_hits=0, preemptions=0, queue_time_s=0)  # fmt: skip
        drafted = SpecDecodeCounters(num_drafts=self.steps, num_draft_tokens=3 * self.steps,
                                     num_accepted_tokens=self.steps,
                                     num_accepted_tokens_per_pos=(self.steps, 0, 0))  # fmt: skip
        return Counters(server, drafted)


@pytest.fixture(params=[6])
def measured(monkeypatch, request):
    """The experiment on a made-up server and a made-up router, in which each token takes the same experts."""
    from specbook.bench import moe_routing

    def answers(server, prompts, max_tokens):
        server.steps, server.answers = server.steps + 4, server.answers + 1
        return [Answer(prompt_token_ids=(5, 6), token_ids=(7, 8, 9, 10, 11, 2)[:length], text="{}")]

    length, loaded = request.param, []
    monkeypatch.setattr(mixture_of_experts, "Server", Served)
    monkeypatch.setattr(greedy, "answers", answers)
    monkeypatch.setattr(moe_routing, "load", lambda folder, noise: loaded.append(noise))
    monkeypatch.setattr(moe_routing, "chosen", lambda model, prompt, answer: stream(*[{0, 1}] * len(answer)))
    return mixture_of_experts.router_noise(Noise(**NOISE)), loaded


def test_a_head_trained_without_noise_is_its_own_reading(measured):
    served, _ = measured
    compared = served.model_copy(update={"head_noise": 0.0})
    table = moe_tables.noise([served, compared])
    assert set(table["reading"]) == {moe_tables.QUIET, moe_tables.NOISY}
    assert len(table) == 2 * len(served.domains)


def test_noise_reaches_server_and_router(measured):
    found, loaded = measured
    assert (Served.started.router_noise, loaded) == (0.5, [0.5])
    assert [one.domain for one in found.domains] == ["json", "code"]
    for one in found.domains:
        assert [c.num_drafts for c in one.counters] == [4, 4, 4]
        assert one.experts.value == 2
        assert (one.passed.n, one.passed.unit_of_n) == (3, "prompts")
    assert found.domains[0].passed.value == 0  # an empty record is not the one that was asked for


@pytest.mark.parametrize("measured", [0, 3], indirect=True)
def test_answers_shorter_than_a_step_count_no_experts(measured):
    found, _ = measured
    assert [one.experts for one in found.domains] == [None, None]
    (row, *_) = moe_tables.noise([found]).to_dict("records")
    assert np.isnan(row["experts"])
    assert row["length"] > 1
