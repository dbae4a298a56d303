"""The deliverable's description is what the records say, and says so when they are few."""

from specbook import paths, records
from specbook.records import select
from specbook.report import skill


def test_the_deliverable_is_written_from_todays_records():
    kept = (paths.root() / "outputs" / "skill-inference-server.md").read_text()
    assert kept == skill.text(), "write it again: specbook skill"


def test_no_gpu_was_measured_as_it_says():
    machines = {run.hardware.id for run in select.current(records.load())}
    assert machines
    assert all(name.startswith("cpu-") for name in machines)
