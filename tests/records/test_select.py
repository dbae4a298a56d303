"""The one rule for which record counts."""

import pytest

import factories
from specbook.records import run_set
from specbook.records.run import Round

BASE, ARM = factories.point(), factories.point(factories.eagle3(5))


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def run(where, name, minute, **fields):
    return factories.write_run(
        where, 100.0, run_id=f"{name}-{minute}", started_at=f"2026-01-01T00:{minute:02d}:00+00:00",
        together=Round(id=name), **fields,
    )  # fmt: skip


def chosen(*runs):
    got = run_set.current(runs)
    assert run_set.current(got) == got
    return [r.run_id for r in got]


def test_the_newest_of_an_arm_counts_with_its_baseline():
    runs = run(BASE, "A", 0), run(ARM, "A", 1), run(BASE, "B", 2), run(ARM, "B", 3)
    assert chosen(*runs) == ["B-2", "B-3"]


def test_a_baseline_measured_again_alone_does_not_part_a_pair():
    assert chosen(run(BASE, "A", 0), run(ARM, "A", 1), run(BASE, "B", 2)) == ["A-0", "A-1"]


def test_an_arm_beside_its_baseline_goes_before_others():
    assert chosen(run(BASE, "A", 0), run(ARM, "A", 1), run(ARM, "B", 2)) == ["A-0", "A-1"]


def test_two_arms_of_two_rounds_each_keep_their_baseline():
    late = factories.point(factories.eagle3(7))
    runs = run(BASE, "A", 0), run(ARM, "A", 1), run(BASE, "B", 2), run(late, "B", 3)
    assert chosen(*runs) == ["A-0", "A-1", "B-2", "B-3"]


def test_of_a_baseline_alone_the_newest_counts():
    assert chosen(run(BASE, "A", 0), run(BASE, "B", 1)) == ["B-1"]


def test_twice_in_one_round_the_newest_counts():
    assert chosen(run(BASE, "A", 0), run(BASE, "A", 1), run(ARM, "A", 2)) == ["A-1", "A-2"]


def test_failed_records_never_count():
    assert chosen(run(BASE, "A", 0), factories.failed_run(ARM)) == ["A-0"]


@pytest.mark.parametrize(
    "change",
    [{"versions": {"vllm": "9"}}, {"prompts_sha256": "edited"}, {"weights_sha256": {"target": "again"}}],
)
def test_records_before_a_change_do_not_count_beside_newer(change):
    origin = factories.PROVENANCE.model_copy(update=change)
    other = factories.point(restart=1)
    assert chosen(run(BASE, "A", 0), run(other, "B", 1, provenance=origin)) == ["B-1"]


def test_two_engines_of_one_machine_count_side_by_side():
    origin = factories.PROVENANCE.model_copy(update={"versions": {"xllamacpp": "1"}})
    target = BASE.target.model_copy(update={"name": "other", "engine": "llama_cpp"})
    other = BASE.model_copy(update={"target": target})
    assert chosen(run(BASE, "A", 0), run(other, "A", 1, provenance=origin)) == ["A-0", "A-1"]


def test_records_that_count_keep_the_plans_order():
    assert chosen(run(ARM, "A", 1), run(BASE, "A", 0), run(ARM, "B", 3), run(BASE, "B", 2)) == ["B-3", "B-2"]
