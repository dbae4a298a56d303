"""The experiment on a step: turns are taken, steps are counted by the engine, and what fails is said."""

from types import MappingProxyType, SimpleNamespace
from typing import ClassVar

import httpx
import pandas as pd
import pytest

from specbook.analysis import steps
from specbook.bench import experiments
from specbook.bench.experiments import step_profile
from specbook.engine.vllm.profiler import PARTS
from specbook.errors import ConfigError, EngineError
from specbook.records.experiment_results import StepTimes, Variant
from specbook.report import tables
from specbook.report.figures import serving_figures as draw

TARGET = {"name": "pocket-dense", "model": "models/pocket-dense", "max_model_len": 512}
DRAFT = {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 3}
TWO = ({"name": "as planned"}, {"name": "other", "extra_args": ["--flag"], "variables": {"VLLM_X": "1"}})
PROFILED = [{"pass": 0.003, "draft": 0.001}, {"pass": 0.003, "draft": 0.003}, {"pass": 0.003, "draft": 0.001}]


class Profiler:
    variables = MappingProxyType({"SCOPES": "1"})
    start_path, stop_path = "/begin", "/end"

    def arguments(self, folder):
        return "--profile", str(folder)

    def steps(self, folder):
        return PROFILED


class Served:
    """Answers eleven tokens, one a chunk, or two where it drafts."""

    all: ClassVar[list] = []

    def __init__(self, target, speculation):
        self.target, self.speculation, self.environment = target, speculation, {}
        self.answered, self.asked, self.running, self.client = [], [], True, self
        Served.all.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def pause(self):
        self.running = False

    def resume(self):
        assert not any(other.running for other in Served.all)
        self.running = True

    def post(self, path):
        self.asked.append((path, len(self.answered)))

    def last_words(self):
        return "out of memory"

    def send(self, seed, num_requests):
        assert self.running
        self.answered.append(seed)
        gaps = [0.25] * 5 if self.speculation else [0.25] * 10
        return {
            "itls": [gaps] * num_requests,
            "output_lens": [11] * num_requests,
            "errors": [""] * num_requests,
        }


@pytest.fixture
def engine(monkeypatch, tmp_path):
    Served.all = []
    monkeypatch.setattr(step_profile, "Server", Served)
    sent = lambda how, server, seed, watch: server.send(seed, how.num_requests)  # noqa: E731
    monkeypatch.setattr(step_profile.traffic_phases, "send", sent)
    monkeypatch.setattr(
        step_profile.engine, "for_target", lambda target: SimpleNamespace(profiler=Profiler())
    )
    monkeypatch.setattr(step_profile.paths, "scratch", lambda name: tmp_path)


def asked(**more):
    return step_profile.StepProfile(
        **{"target": TARGET, "domain": "json", "turns": 3, "num_requests": 2, "max_tokens": 16, **more}
    )


@pytest.mark.parametrize(("draft", "length"), [(None, 1.0), (DRAFT, 2.0)])
def test_options_take_turns_with_the_same_prompts(engine, draft, length):
    found = step_profile.profile_steps(asked(speculation=draft, options=TWO))
    for one in found.variants:
        assert one.step_s == (0.25,) * 3
        assert one.length == length
        assert one.profiled_step_s == pytest.approx(0.004)
        assert one.parts == {"pass": pytest.approx(0.75), "draft": pytest.approx(0.25)}
    plain, other = Served.all
    assert plain.answered == other.answered == [step_profile.WARM_SEED, 0, 1, 2, 3]
    assert plain.asked == other.asked == [("/begin", 4), ("/end", 5)]
    assert plain.target.extra_args[0] == "--profile"
    assert other.target.extra_args[:2] == ("--flag", "--profile")
    assert (plain.environment, other.environment) == ({"SCOPES": "1"}, {"SCOPES": "1", "VLLM_X": "1"})


def test_what_fails_in_a_step_experiment_is_said(engine, monkeypatch):
    def refuse(self, path):
        raise httpx.ConnectError("no such page")

    monkeypatch.setattr(Served, "post", refuse)
    with pytest.raises(EngineError, match="pocket-dense was not profiled: no such page"):
        step_profile.profile_steps(asked())
    Served.all = []
    failed = {"itls": [[]], "output_lens": [0], "errors": ["died"]}
    monkeypatch.setattr(step_profile.traffic_phases, "send", lambda *_, **__: failed)
    with pytest.raises(EngineError, match="answered too little to time a step: out of memory"):
        step_profile.profile_steps(asked())
    monkeypatch.setattr(step_profile.engine, "for_target", lambda target: SimpleNamespace(profiler=None))
    with pytest.raises(ConfigError, match="engine 'vllm' has no profiler"):
        step_profile.profile_steps(asked())


def kept(*pairs, target=MappingProxyType(TARGET)):
    """What replaying an appendix gives: (speculation, a step's ms, the other option's)."""
    for draft, ms, other in pairs:
        parts = {"pass": 0.5, "draft": 0.5 if draft else 0.0, "between steps": 0.0 if draft else 0.5}
        variants = [
            Variant(name=name, length=2.0, step_s=tuple(s * 1e-3 * f for f in (0.99, 1.0, 1.01)), parts=parts,
                    profiled_step_s=0.1)
            for name, s in (("as planned", ms), ("other", other))
        ]  # fmt: skip
        experiment = SimpleNamespace(
            parameters={"target": target} | ({"speculation": draft} if draft else {})
        )
        yield SimpleNamespace(experiment=experiment), StepTimes(variants=tuple(variants))


def test_parts_are_shares_of_the_unprofiled_step():
    found = list(kept((None, 4, 4), (DRAFT, 10, 5)))
    parts = steps.parts(found)
    assert dict(parts.groupby("arm", sort=False)["milliseconds"].sum().round(2)) == {
        "baseline": 4,
        "ngram K=3": 10,
    }
    tried = steps.options(found)
    assert [round(one.value, 3) for one in tried["estimate"]] == [1.0, 0.5]
    assert list(tables.options(tried)["n"]) == ["3 turns", "3 turns"]
    assert draw.step_parts(parts).get_xlabel() == "ms a step, one sequence"


def test_arms_of_two_targets_bear_their_target():
    dense, mixture = ({"name": name} for name in ("dense", "mixture"))
    pairs = ((None, 4, 4), (DRAFT, 10, 5)), ((None, 2, 2), (DRAFT, 9, 9))
    found = [*kept(*pairs[0], target=dense), *kept(*pairs[1], target=mixture)]
    assert list(steps.parts(found)["arm"].unique())[:2] == ["dense, baseline", "dense, ngram K=3"]
    assert list(steps.options(found)["arm"])[2:] == ["mixture, baseline", "mixture, ngram K=3"]


def test_no_two_parts_of_a_step_share_a_colour():
    parts = pd.DataFrame([("dense", "baseline", part, 1.0) for part in PARTS], columns=list(steps.PARTS))
    drawn = [bars.patches[0].get_facecolor() for bars in draw.step_parts(parts).containers]
    assert len(set(drawn)) == len(drawn) == len(PARTS)


@pytest.mark.parametrize("hardware", ["cpu", "h100"])
def test_a_step_that_was_not_profiled_has_no_parts(hardware, monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    for appendix in ("appendix_step", "appendix_mixture_step"):  # h100 has no plan of them
        kept = experiments.of_chapter(appendix, hardware)
        assert (steps.parts(kept).empty, steps.options(kept).empty) == (True, True)
