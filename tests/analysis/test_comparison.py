"""Two selections: the ratio by cell, its verdict, the part that moved, and what cannot be compared."""

import json

import pytest

from specbook import records
from specbook.analysis import comparison
from specbook.analysis.comparison import compare, verdict
from specbook.errors import ConfigError, RecordError
from specbook.records import selection
from specbook.report import comparison_report
from specbook.stats.estimate import Estimate
from two_sides import NOISY, STEADY, read, side, slower


@pytest.fixture(autouse=True)
def results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def test_pairs_of_shared_rounds_cancel_what_both_had():
    a, b = side("A", NOISY, shared=True), side("B", slower(0.07, NOISY), shared=True)
    overall = compare(a, b).overall
    assert (overall["paired"], overall["verdict"]) == (True, "worse")
    assert overall["tokens_per_s"].value == pytest.approx(0.93, rel=1e-3)


def test_without_shared_rounds_the_interval_is_wider():
    a, b = side("A", NOISY), side("B", slower(0.07, NOISY))
    found = compare(a, b)
    assert (found.overall["paired"], found.overall["verdict"]) == (False, "cannot tell")
    assert found.overall["tokens_per_s"].method == "welch-t"
    assert found.overall["needed"] > 30
    assert f"{found.overall['needed']} restarts a side would see it" in comparison_report.summary(found)


@pytest.mark.parametrize(
    ("low", "high", "want"),
    [
        (1.01, 1.2, "better"), (0.96, 1.02, "not worse"), (0.96, 0.99, "not worse"), (0.9, 0.99, "worse"),
        (0.9, 1.1, "cannot tell"), (None, None, "cannot tell"),
    ],
)  # fmt: skip
def test_the_verdict_follows_the_interval(low, high, want):
    ratio = Estimate(value=1.0, low=low, high=high, n=3, unit_of_n="restarts", method="none")
    assert verdict(ratio, 0.05) == want


def test_a_weaker_head_is_named_with_its_position():
    a = side("A", shared=True)
    found = compare(a, side("B", slower(0.1), shared=True, per_pos=(80, 35, 21), draft="1"))
    assert found.position == 2
    assert found.differs["draft_sha256"] == ("0", "1")
    text = comparison_report.summary(found)
    assert text.startswith("B is slower by 10.0 % [")
    assert "the acceptance length fell by 9.2 %" in text
    assert "most at position 2" in text
    assert "the time of a step is not shown to change" in text


def test_a_slower_engine_shows_in_the_step_alone():
    a = side("A", shared=True)
    text = comparison_report.summary(compare(a, side("B", slower(0.1), shared=True, step_s=0.011)))
    assert "the time of a step rose by 10.0 %" in text
    assert "the acceptance length is not shown to change" in text


def test_a_busy_machine_is_said():
    a = side("A", shared=True)
    text = comparison_report.summary(compare(a, side("B", slower(0.1), shared=True, busy=1.0)))
    assert "more than a tenth of the cores in 3 of 3 windows of B." in text


def test_hosts_that_are_not_known_to_be_one_are_said():
    text = comparison_report.summary(compare(side("A"), side("B", slower(0.07))))
    assert "it may be the machine" in text


def test_what_both_sides_were_chosen_by_is_no_part_of_a_cell():
    side("A", shared=True)
    side("B", slower(0.5), shared=True, per_pos=(80,))
    one, other = (comparison.read(selection.read(f"arm=EAGLE-3 K={k}")) for k in (3, 1))
    found = compare(one, other)
    assert "arm" not in found.cells
    assert found.overall["tokens_per_s"].value == pytest.approx(0.5, rel=1e-2)


def test_a_drafting_arm_is_compared_with_none():
    side("A", shared=True, per_pos=())
    side("B", slower(-0.5), shared=True)
    plain, drafting = (comparison.read(selection.read(f"arm={arm}")) for arm in ("baseline", "EAGLE-3 K=3"))
    assert compare(plain, drafting).overall["verdict"] == "better"


def test_a_cell_of_one_restart_is_left_out():
    side("A"), side("A", STEADY[:1], domain="chat")
    side("B", slower(0.3)), side("B", slower(0.3)[:1], domain="chat")
    found = compare(read("A"), read("B"))
    assert found.overall["verdict"] == "worse"
    assert found.left_out == {"of fewer than 3 restarts": 1}


def test_a_folder_of_another_checkout_is_read(monkeypatch, tmp_path):
    here = side("A")
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "other" / "results"))
    side("B", slower(0.3))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    there = comparison.read(selection.read(str(tmp_path / "other")))
    assert compare(here, there).overall["verdict"] == "worse"


def test_json_holds_every_cell_and_record():
    body = json.loads(json.dumps(comparison_report.body(compare(side("A"), side("B", slower(0.3))))))
    assert body["overall"]["verdict"] == "worse"
    assert [cell["domain"] for cell in body["cells"]] == ["json"]
    assert [len(body[name]["records"]) for name in "ab"] == [3, 3]


def test_cells_of_other_prompts_are_left_out_and_counted():
    for name in "AB":
        side(name)
        last = side(name, domain="chat", prompts=name)
    found = compare(read("A"), last)
    assert (list(found.cells["domain"]), found.left_out) == (["json"], {"asked otherwise": 1})
    assert "left out: 1 cell asked otherwise" in comparison_report.page(found)


BAD = [
    ({"prompts": "1"}, "asked other prompts in all 1 common cells"),
    ({"speeds": STEADY[:1]}, "restarts that both sides have: 1. To fix: measure 3 or more"),
    ({"per_pos": (80,)}, "arm is EAGLE-3 K=3 in A and EAGLE-3 K=1 in B; give `arm=...` of each"),
]


@pytest.mark.parametrize(("how", "message"), BAD, ids=["prompts", "restarts", "K"])
def test_what_cannot_be_compared_is_refused_with_the_reason(how, message):
    with pytest.raises(ConfigError, match=message.replace("`", ".")):
        compare(side("A"), side("B", **how))


def test_records_of_both_sides_are_refused():
    a = side("A")
    with pytest.raises(ConfigError, match="3 records are in both A and B"):
        compare(a, a)


def test_two_heads_of_one_name_are_not_mixed():
    a = side("A", shared=True)
    b = a._replace(windows=a.windows.iloc[[0, 0, 1, 2]].assign(run_id="another"))
    with pytest.raises(RecordError, match=r"B has .* twice in a round"):
        compare(a, b)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dat=2026", "no key 'dat' .did you mean 'date'"), ("nowhere", "'nowhere': no such folder"),
        ("date=2025", "no good record has date=2025"),
    ],
)  # fmt: skip
def test_a_selection_that_finds_nothing_says_why(text, message):
    side("A")
    with pytest.raises(ConfigError, match=message):
        comparison.read(selection.read(text))


def test_every_key_has_a_fact():
    side("A")
    (first, *_) = records.load()
    assert selection.facts(first)["options"] == "max_model_len=512"
    assert set(comparison.MAY_DIFFER) <= selection.facts(first).keys()
