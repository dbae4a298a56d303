"""The chapter on drift, run in this process on made-up records: every cell, and what its sentences say."""

import pytest

import chapters
import drifting
import synthetic
from specbook import plan
from specbook.measure import experiments

CHAPTER = "04_domain_drift"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def write(group: str) -> None:
    wanted = plan.load(CHAPTER, "cpu", group)
    synthetic.write(wanted)
    drifting.write(wanted)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("group", plan.GROUPS)
def test_the_chapter_says_what_its_records_hold(group):
    write(group)
    said = chapters.run(CHAPTER, group=group)
    assert "simulated" in said  # on every figure
    assert "**Answer.** A monitor of the server's own counters saw the drift after" in said
    assert "1200 requests were sent and none lost or broken off, with 32 in flight at 4 switches" in said
    for monitor in ("mean of 30", "EWMA 0.1", "CUSUM 0.5", "Shiryaev-Roberts 1"):
        assert monitor in said
    assert "replayed" in said
    assert ("slow" in said) == (group == "full")


@pytest.mark.parametrize("group", plan.GROUPS)
def test_the_plan_asks_for_what_the_experiments_know(group):
    wanted = plan.load(CHAPTER, "cpu", group)
    experiments.check(wanted)
    assert [one.name for one in wanted.experiments].count("fallback") == 1
    assert all(one.parameters["target"] for one in wanted.experiments)
