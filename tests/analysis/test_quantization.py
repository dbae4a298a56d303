"""One model in several precisions: ratios taken in one round, nothing said where nothing was measured."""

from types import SimpleNamespace

import pytest

import factories
import synthetic
from specbook import config
from specbook.analysis import engines
from specbook.report import memory_page


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A wide target of 100 tokens/s and a narrow one half as fast again; its draft does less for it."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    found = []
    for restart, mood in enumerate((1.0, 1.2, 0.8)):
        for name, speed, gain in (("wide", 100.0, 3.0), ("narrow", 150.0, 2.0)):
            target = factories.target(name=name, model=f"models/{name}")
            for draft in (None, factories.eagle3(3)):
                where = factories.point(draft, target=target, restart=restart)
                counted = factories.counters() if draft else None
                pace = speed * mood * (gain if draft else 1.0)
                found.append(factories.write_run(where, pace, spec_decode=counted))
    return found


def test_speeds_are_held_against_each_other_in_one_round(runs):
    table = engines.by_target(runs).set_index("target")
    assert table.loc["wide", "against"] is None
    assert table.loc["narrow", "against"].value == pytest.approx(1.5)
    assert table.loc["narrow", "against"].low == pytest.approx(1.5, rel=1e-3)  # the rounds' moods cancel
    assert table.loc["wide", "speedup"].value == pytest.approx(3.0)
    assert table.loc["narrow", "speedup"].value == pytest.approx(2.0)
    assert table.loc["narrow", "length"] == pytest.approx(1 + 1.6)


def test_what_shares_no_round_is_not_compared(runs):
    apart = [
        run if run.point.target.name == "wide" else run.model_copy(update={"round": factories.Round(id="x")})
        for run in runs
    ]
    assert engines.by_target(apart)["against"].isna().all()


def test_the_page_says_that_nothing_was_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    said = memory_page.measured()
    assert said.startswith("**Not measured yet:** there is no record of pocket-dense, pocket-dense-int8 and")


def test_a_precision_without_records_is_named_below_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    for sweep in config.load(*memory_page.NARROWED).parts()[:2]:
        synthetic.write(sweep)
    said = memory_page.measured()
    assert "| pocket-dense-int8 |" in said
    assert "there is no record of pocket-dense-int4." in said
    assert "| pocket-dense-int4 |" not in said


def test_right_answers_count_each_prompt_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    rows = {"p0": {"check": {"kind": "math_exact", "answer": 7}, "domain": "math"}}
    rows |= {"p1": {**rows["p0"]}, "p2": {"check": {"kind": "unknown"}, "domain": "math"}}
    known = [SimpleNamespace(id=name, row=row) for name, row in rows.items()]
    monkeypatch.setattr(memory_page.prompt_files, "for_traffic", lambda traffic: known)
    monkeypatch.setattr(memory_page.provenance, "prompts_sha256", lambda traffic: today)
    answers = factories.rows(4).assign(text=["#### 7", "#### 8", "#### 7", "#### 7"])
    answers.loc[3, ["prompt_id", "error"]] = ["p1", "timed out"]
    runs = [
        factories.write_run(factories.point(draft, restart=restart), 100.0, requests=answers)
        for draft in (None, factories.eagle3(3)) for restart in (0, 1)
    ]  # fmt: skip
    today = "0"
    found = memory_page.accuracy(runs)
    assert (found.value, found.n) == (0.5, 2)
    assert memory_page.accuracy(runs[2:]) is None
    today = "edited since"
    assert memory_page.accuracy(runs) is None


def test_an_appendix_is_measured_by_name_only():
    assert config.chapters(["appendix_quantization"], "cpu") == ["appendix_quantization"]
    assert "appendix_quantization" not in config.chapters(["all"], "cpu")
    found = config.load("appendix_quantization", "cpu", "full")
    assert [sweep.target.name for sweep in found.sweeps] == [
        "pocket-dense", "pocket-dense-int8", "pocket-dense-int4",
    ]  # fmt: skip
    same = [sweep.model_copy(update={"target": found.sweeps[0].target}) for sweep in found.sweeps]
    assert same[0] == same[1]
