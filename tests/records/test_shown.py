"""Every shipped record is on a page, or gave way to a newer one: what disappoints is not left in a drawer."""

import pytest

from specbook import config, paths, records
from specbook.analysis import summaries
from specbook.bench import experiments
from specbook.records.run import ExperimentRecord, Provenance, RunRecord
from specbook.records.run_set import RunSet
from specbook.report import break_even_page
from specbook.stats import windows

pytestmark = pytest.mark.usefixtures("only_shipped")
REPLACED = {
    "20261124T204914Z-cc8b404f-4b65": "played lengths that were counted on other prompts",
    "20261124T205542Z-17d6061a-3fe2": "the same, at batch 32",
}
"""Records whose method was wrong, and which a newer one replaces."""


def plans():
    files = sorted((paths.root() / "params" / "cpu").glob("[01a][0-9p]*.yaml"))
    return [config.load(file.stem, "cpu", group) for file in files for group in config.GROUPS]


def test_no_run_is_on_no_page():
    shown = {run.run_id for one in plans() for run in records.recorded(one)}
    shown |= {run.run_id for _, runs in break_even_page.measured() for run in runs}  # maps of any plan
    kept = [one for one in records.everything() if isinstance(one, RunRecord) and one.status == "ok"]
    assert kept
    assert [one.run_id for one in kept if one.run_id not in shown] == []


def test_no_experiment_is_on_no_page():
    every = [one for one in records.everything() if isinstance(one, ExperimentRecord) and one.status == "ok"]
    pages = [record for one in plans() for record, _ in experiments.replay(one, partial=True)]
    shown, last = {record.run_id for record in pages}, {}
    for record in pages:
        last[of(record)] = max(last.get(of(record), ""), record.started_at)
    assert every
    assert [
        one.run_id for one in every
        if not (one.run_id in shown or one.run_id in REPLACED or one.started_at < last.get(of(one), ""))
    ] == []  # fmt: skip


def test_no_record_was_made_with_uncommitted_changes():
    dirty = [one.run_id for one in records.everything() if any(made.git_dirty for made in origins(one))]
    assert dirty == []


def origins(record) -> list[Provenance]:
    """One for each arm of a lossless check; none of margins, which belong to a check."""
    found = getattr(record, "provenance", ())
    return [found] if isinstance(found, Provenance) else list(dict(found).values())


def test_every_closed_loop_had_its_slots_full():
    runs = RunSet(one for one in records.everything() if isinstance(one, RunRecord) and one.status == "ok")
    loops = summaries.concurrency(runs.closed)
    assert loops["steady"].all()
    assert loops["share"].min() >= windows.FULL


def of(record: ExperimentRecord) -> tuple:
    asked = record.experiment
    return record.chapter, asked.name, asked.parameters.get("scenario"), record.hardware.id
