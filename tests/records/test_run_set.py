"""Runs that are selected once, and tables that are made once."""

import pandas as pd
import pytest

import synthetic
from specbook import config, records
from specbook.records.run_set import RunSet, once


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    plan = config.load("02_eagle3", "cpu", "quick")
    synthetic.write(plan)
    return records.replay(plan)


def test_a_set_of_a_set_is_itself(runs):
    assert RunSet.of(runs) is runs
    assert [*RunSet([*runs])] == [*runs]


def test_parts_are_whole_and_are_made_once(runs):
    assert {*map(id, runs.closed)} | {*map(id, runs.poisson)} == {*map(id, runs)}
    assert len(runs.baselines) + len(runs.drafting) == len(runs)
    assert runs.closed is runs.closed
    assert runs.machine == synthetic.HARDWARE.id
    assert RunSet().machine is None


def test_a_table_is_made_once_for_each_choice(runs):
    calls = []

    @once
    def keys(own: RunSet, prefix: str = "") -> pd.DataFrame:
        calls.append(prefix)
        return pd.DataFrame({"key": [prefix + run.key for run in own]})

    changed = keys(runs)
    changed["key"] = "changed"
    assert keys(runs)["key"].tolist() == [run.key for run in runs]
    assert keys(runs, prefix="a")["key"].str.startswith("a").all()
    assert calls == ["", "a"]
    keys([*runs])  # no set: nothing is kept
    assert calls == ["", "a", ""]


def test_a_plan_replayed_again_has_its_tables(runs):
    plan = config.load("02_eagle3", "cpu", "quick")
    assert records.replay(plan) is runs
    records.append(runs[0].model_copy(update={"run_id": "again", "started_at": "2027-01-01T00:00:00Z"}))
    assert records.replay(plan) is not runs


def test_only_runs_of_one_machine_and_target_are_joined(runs):
    one, other = runs[0], runs[-1]
    elsewhere = other.model_copy(
        update={"hardware": other.hardware.model_copy(update={"id": "cpu-other-2c"})}
    )
    named = other.point.target.model_copy(update={"name": "another"})
    renamed = other.model_copy(update={"point": other.point.model_copy(update={"target": named})})
    joined = RunSet([one]).joined([other, elsewhere, renamed])
    assert {id(run) for run in joined} == {id(one), id(other)}
    batches = [run.point.load.concurrency for run in runs.joined([])]
    assert batches == sorted(batches)
