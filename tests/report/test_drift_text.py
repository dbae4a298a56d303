"""The pages on drift, run in this process on made-up records: every cell, and what their sentences say."""

import re

import pandas as pd
import pytest

import chapters
import drifting
import synthetic
from specbook import config
from specbook.analysis import drift, versions
from specbook.bench import experiments
from specbook.errors import ConfigError
from specbook.report.text import answers_text as remarks
from specbook.stats.estimate import Estimate

CHAPTER = "04_domain_drift"
PAGES = [page for page, plan in chapters.PLANS.items() if plan == CHAPTER]
UNMEASURED = (
    "A draft one version behind: not measured yet.",
    "No draft was measured one version behind its target.",
    "**The roll-out in the counters: not measured yet.**",
)
INCLUDED = ", answers that repeat themselves included."
FULL = ("sql", "head retrained", "rollouts")
"""What only the full plan asks."""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def said_by_all(group: str) -> str:
    return "\n".join(chapters.run(page, group=group) for page in PAGES)


def write(group: str) -> None:
    wanted = config.load(CHAPTER, "cpu", group)
    synthetic.write(wanted, world=synthetic.World(most_requests=12))
    drifting.write(wanted)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("group", config.GROUPS)
def test_the_chapter_says_what_its_records_hold(group):
    write(group)
    said = said_by_all(group)
    assert len(PAGES) == said.count("**Answer.**") == 3
    assert "simulated" in said  # on every figure
    assert re.search(r"\*\*Answer.\*\* A step of EAGLE-3 K=5 \(compiled\) yields \d", said)
    assert "**Answer.** A monitor of the server's own counters, " in said
    assert "**Answer.** Over 2 episodes with fallback, " in said
    assert "1200 requests were sent and none lost or broken off, with 32 in flight at 4 switches" in said
    for monitor in ("mean of 30", "EWMA 0.1", "CUSUM 0.5", "Shiryaev-Roberts 1"):
        assert monitor in said
    assert "replayed" in said
    for words in ("micro", "macro", "slower than"):
        assert words in said
    assert bool(re.search(r"\bslow\b", said)) == (group == "full")
    assert [words for words in FULL if (words in said) != (group == "full")] == []
    assert [words in said for words in UNMEASURED] == [group == "quick"] * 3


def test_an_answer_that_broke_off_is_lost_once():
    made = drifting.fallen_back(repeats=2, lost=3)
    broken = [arm.model_copy(update={"broken": 3 * (arm.arm == "drafting")}) for arm in made.arms]
    table = drift.served(made.model_copy(update={"arms": tuple(broken)}))
    assert table["sent"].sum() == 3600
    assert table["lost"].sum() == 6


def test_the_answer_is_the_monitor_with_fewest_false_alarms():
    rows = [
        {"drift": "abrupt", "monitor": "nervous", "delay_s": 1.0, "within_s": 3.0, "false_alarms": 50.0},
        {"drift": "slow", "monitor": "calm", "delay_s": 9.0, "within_s": 10.0, "false_alarms": 0.5},
    ]
    rate = Estimate(value=0.5, low=0.1, high=2.0, n=12, unit_of_n="minutes", method="poisson")
    table = pd.DataFrame(rows).assign(found=0.875, episodes=8, estimate=[rate, rate])
    said = remarks.seen(table)
    assert "calm, found 7 of 8 slow drifts after 9.0 s" in said
    assert "finds all other recorded drifts within 10 s" in said
    assert "0.5 [0.1, 2.0] false alarms a day over 12 minutes" in said


def test_drifts_that_no_monitor_finds_in_time_are_said_to():
    found = drift.Recordings.of([(False, drifting.quiet(3)), (False, drifting.abrupt(2))])
    none = drift.compare(found, replays=2, days=0.01).iloc[:0]
    said = remarks.answer(remarks.seen(none), remarks.fallback(drifting.fallen_back(repeats=1)))
    assert f"**Answer.** {remarks.UNSEEN} Over 1 episode with fallback, 600 requests" in said


def test_a_draft_accepts_most_of_one_traffic_and_least_of_one():
    table = pd.DataFrame(
        {"arm": ["A", "A", "A", "B"], "domain": ["x", "y", "z", "x"], "length": [2.0, 5.0, 3.0, 1.0]}
    )
    assert remarks.accepted(table) == f"A step of A yields 2.00 tokens on x and 5.00 tokens on y{INCLUDED}"
    assert remarks.accepted(table[:1]) == f"A step of A yields 2.00 tokens on x{INCLUDED}"
    assert remarks.accepted(table[:0]) == "Nothing was drafted."


def test_the_gain_of_fallback_has_an_interval_over_repeats():
    made = drifting.fallen_back(repeats=3)
    found = drift.gain(made, "drafting")
    assert (found.n, found.unit_of_n) == (3, "repeats")
    assert found.low < found.value < found.high
    said = remarks.fallback(made)
    assert found.span(" times") in said
    shorter = drift.tail(made, "drafting")
    assert shorter.high < 1
    assert f"its p99 of E2E was {shorter.span(' times')} as long" in said


@pytest.mark.parametrize("group", config.GROUPS)
def test_the_plan_asks_for_what_the_experiments_know(group):
    wanted = config.load(CHAPTER, "cpu", group)
    experiments.check(wanted)
    assert [one.name for one in wanted.experiments].count("fallback") == 1
    assert all(one.parameters["target"] for one in wanted.experiments)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("group", config.GROUPS)
def test_without_records_one_message_says_what_measures(group):
    why = f"no record for the {group} plan of {CHAPTER} .* `specbook run {CHAPTER} .*--group {group}`"
    for page in PAGES:
        with pytest.raises(ConfigError, match=why):
            chapters.run(page, group=group)
    synthetic.write(config.load(CHAPTER, "cpu", group))
    for page in PAGES:
        with pytest.raises(ConfigError, match=f"no record of drift, .*fallback.* for the {group} plan"):
            chapters.run(page, group=group)


@pytest.mark.usefixtures("results")
def test_an_unmeasured_version_leaves_the_rest():
    mine, later = versions.parts(config.load(CHAPTER, "cpu", "full"))
    assert (len(mine.sweeps), len(later.sweeps), len(later.experiments)) == (1, 1, 1)
    synthetic.write(mine)
    drifting.write(mine)
    said = said_by_all("full")
    assert "**Answer.** A monitor" in said
    assert [words for words in UNMEASURED if words not in said] == []
    assert "retrained" not in said
