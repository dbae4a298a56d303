"""One model in two precisions: ratios taken within a round, and nothing said where nothing was measured."""

import pytest

import factories
from specbook import plan
from specbook.analysis import narrow
from specbook.book import memory_page


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
    table = narrow.table(runs, []).set_index("target")
    assert table.loc["wide", "against"] is None
    assert table.loc["narrow", "against"].value == pytest.approx(1.5)
    assert table.loc["narrow", "against"].low == pytest.approx(1.5)  # the rounds' moods cancel
    assert table.loc["wide", "speedup"].value == pytest.approx(3.0)
    assert table.loc["narrow", "speedup"].value == pytest.approx(2.0)
    assert table.loc["narrow", "length"] == pytest.approx(1 + 1.6)
    assert table["right"].isna().all()


def test_what_shares_no_round_is_not_compared(runs):
    apart = [
        run if run.point.target.name == "wide" else run.model_copy(update={"round": factories.Round(id="x")})
        for run in runs
    ]
    assert narrow.table(apart, [])["against"].isna().all()


def test_the_page_says_that_nothing_was_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    said = memory_page.measured()
    assert said.startswith("**Not measured yet:** there is no record of pocket-dense and pocket-dense-int8.")


def test_an_appendix_is_measured_by_name_only():
    assert plan.chapters(["appendix_quantization"], "cpu") == ["appendix_quantization"]
    assert "appendix_quantization" not in plan.chapters(["all"], "cpu")
    found = plan.load("appendix_quantization", "cpu", "full")
    assert [sweep.target.name for sweep in found.sweeps] == ["pocket-dense", "pocket-dense-int8"]
    same = [sweep.model_copy(update={"target": found.sweeps[0].target}) for sweep in found.sweeps]
    assert same[0] == same[1]
