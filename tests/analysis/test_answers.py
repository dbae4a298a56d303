"""Stored answers against the same round's baseline, and the two controls beside them."""

import pytest

from factories import eagle3, point, rows, target, write_run
from specbook.analysis import answers
from specbook.errors import RecordError
from specbook.report import tables


@pytest.fixture(autouse=True)
def results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def run(texts, speculation=None, *, restart=0, execution="compiled", **more):
    asked = rows(len(texts)).assign(text=list(texts))
    where = point(speculation, restart=restart, target=target(execution), num_requests=len(texts), **more)
    return write_run(where, 100.0, requests=asked)


def shares(runs, **how):
    table = answers.shares(answers.pairs(runs), **how)
    return {(row.comparison, row.label): row for row in table.itertuples()}


def test_an_arm_is_compared_with_the_baseline_of_its_own_round():
    """Each round answered otherwise, and alike in both arms: across rounds nothing would be the same."""
    runs = [run([letter] * 4, arm, restart=i) for i, letter in enumerate("abc") for arm in (None, eagle3())]
    got = shares(runs)
    assert got["speculation", "EAGLE-3 K=5"].estimate.value == 1.0
    assert got["restart", "baseline"].estimate.value == 0.0
    assert (got["speculation", "EAGLE-3 K=5"].pairs, got["restart", "baseline"].pairs) == (12, 12)


def test_n_counts_prompts_and_not_rounds():
    runs = [run("aaaa", restart=i) for i in range(3)] + [run("aaab", eagle3(), restart=0)]
    runs += [run("aaaa", eagle3(), restart=i) for i in (1, 2)]
    found = shares(runs)["speculation", "EAGLE-3 K=5"].estimate
    assert (found.value, found.n, found.unit_of_n) == (pytest.approx(11 / 12), 4, "prompts")
    assert found.low < found.value < found.high


def test_a_baseline_of_another_mode_is_only_a_control():
    runs = [run("aaaa"), run("abbb", execution="eager"), run("aaab", eagle3())]
    got = shares(runs)
    assert got["speculation", "EAGLE-3 K=5"].estimate.value == 0.75
    assert got["mode", "baseline"].estimate.value == 0.25
    assert ("restart", "baseline") not in got
    assert list(tables.answers(answers.shares(answers.pairs(runs)))["control: restarted"]) == ["not measured"]


def test_a_prompt_asked_twice_in_a_window_is_paired_in_turn():
    asked = rows(4).assign(prompt_id=["p", "q", "p", "q"], text=list("abcd"))
    where = [point(arm, num_requests=4) for arm in (None, eagle3())]
    got = shares([write_run(w, 100.0, requests=asked) for w in where])["speculation", "EAGLE-3 K=5"]
    assert (got.estimate.value, got.pairs, got.estimate.n) == (1.0, 4, 2)


def test_a_request_that_failed_in_one_arm_is_no_pair():
    failed = rows(4).assign(text=[*"aaa", ""], error=[None, None, None, "gone"])
    runs = [run("aaaa"), write_run(point(eagle3()), 100.0, requests=failed)]
    assert shares(runs)["speculation", "EAGLE-3 K=5"].pairs == 3


def test_sampled_answers_are_not_compared():
    sampled = run("aaaa")
    hot = sampled.point.traffic.model_copy(update={"temperature": 0.7})
    changed = sampled.point.model_copy(update={"traffic": hot})
    with pytest.raises(RecordError, match="no good record"):
        answers.pairs([sampled.model_copy(update={"point": changed, "key": changed.key})])


def test_the_table_names_the_arm_that_diverges_most():
    runs = [run("aaaa", restart=i) for i in (0, 1)] + [run("aaaa", execution="eager")]
    runs += [run("aaaa", eagle3(3)), run("aaab", eagle3(7))]
    pairs = answers.pairs(runs)
    table = tables.answers(answers.shares(pairs, by=("load", "domain")))
    assert list(table.index) == [("batch 1", "json")]
    (row,) = table.to_dict("records")
    assert row["prompts"] == 4
    assert row["with speculation"].startswith("75.0 % [")
    assert row["with speculation"].endswith(", EAGLE-3 K=7")
    assert row["control: restarted"].startswith("100 % [")


def test_without_divergences_the_table_bounds_their_share():
    table = tables.answers(answers.shares(answers.pairs([run("aaaa"), run("aaaa", eagle3())])))
    assert list(table["with speculation"]) == ["100 % [51.0, 100]"]


def test_a_hundred_percent_is_shown_only_for_all():
    assert [tables.percent(share) for share in (1.0, 0.9999, 0.5)] == ["100", "99.9", "50.0"]
