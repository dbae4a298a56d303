"""The experiment on sampled answers: which servers answer, with which seeds, and what is kept."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from specbook.bench import experiments, greedy
from specbook.bench.experiments import sampling
from specbook.errors import EngineError

ASKED = sampling.Sampling.model_validate(
    {
        "target": {"name": "pocket-dense", "model": "models/pocket-dense", "max_model_len": 512},
        "speculation": {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 2},
        "traffic": [{"domain": "chat"}, {"domain": "prose"}],
        "prompts_per_domain": 2, "samples": 3, "max_tokens": 5, "temperature": 0.7,
        "other_temperatures": [0.9], "wrong_rates": [0.5, 0.2], "restarts": 2, "concurrency": 4,
    }
)  # fmt: skip


class Served:
    """A server that counts nothing; `greedy.ask` answers in its place."""

    started: ClassVar[list] = []

    def __init__(self, target, speculation):
        self.target, self.speculation = target, speculation
        Served.started.append(speculation)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def counters(self):
        return None

    def diagnosis(self, error):
        return f"{error}, and its last words"


@pytest.fixture
def asked_for(monkeypatch):
    """What was sent: (server, seed, temperature, cap) of each answer."""
    sent = []

    def ask(server, turns, max_tokens, temperature, seed):
        sent.append((server, seed, temperature, max_tokens))
        return SimpleNamespace(token_ids=(seed, len(turns)))

    Served.started.clear()
    monkeypatch.setattr(sampling, "Server", Served)
    monkeypatch.setattr(greedy, "ask", ask)
    monkeypatch.setattr(sampling.counters, "settled", lambda read, before, finished: None)
    monkeypatch.setattr(sampling.counters, "delta", lambda before, after: SimpleNamespace(spec_decode=None))
    return sent


def test_each_restart_has_all_arms(asked_for):
    result = sampling.sample(ASKED)
    once = [
        ("baseline", 0.7), ("baseline, restarted", 0.7), ("baseline, restarted", 0.9), ("ngram K=2", 0.7),
        ("wrong sampler", 0.7),
    ]  # fmt: skip
    assert [(one.arm, one.temperature) for one in result.arms] == once * 2
    assert [one.restart for one in result.arms] == [0] * 5 + [1] * 5
    assert len(result.prompt_ids) == 4
    assert all(len(one.answers) == 4 and {len(each) for each in one.answers} == {3} for one in result.arms)


def test_no_two_answers_share_a_seed(asked_for):
    sampling.sample(ASKED)
    seeds = [seed for _, seed, _, _ in asked_for]
    assert len(seeds) == len(set(seeds)) == 2 * 5 * 4 * 3
    assert {cap for *_, cap in asked_for} == {5}


def test_the_wrong_sampler_plays_its_rates(asked_for):
    sampling.sample(ASKED)
    rates = [one and one.synthetic_acceptance_rates for one in Served.started]
    assert rates == [None, None, None, (0.5, 0.2)] * 2


def test_the_released_sampler_is_an_arm_of_its_own(asked_for):
    released = ASKED.model_copy(update={"released_args": ("--worker-cls", "theirs"), "restarts": 1})
    arms = [one.arm for one in sampling.sample(released).arms]
    assert arms[3:] == ["ngram K=2", "ngram K=2, as released", "wrong sampler"]
    with_args = {server.target.extra_args for server, *_ in asked_for}
    assert with_args == {(), ("--worker-cls", "theirs")}


def test_a_failed_answer_names_the_server(asked_for, monkeypatch):
    def fail(*_, **__):
        raise EngineError("no answer")

    monkeypatch.setattr(greedy, "ask", fail)
    with pytest.raises(EngineError, match="sampled answers of pocket-dense: no answer, and its last words"):
        sampling.sample(ASKED)


def test_the_plan_names_the_experiment():
    from specbook.config import load

    plan = load("appendix_sampling", "cpu", "full")
    experiments.check(plan)
    assert {one.name for one in plan.experiments} == {"sampling"}
