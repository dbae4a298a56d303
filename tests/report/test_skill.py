"""The deliverable's description is what the records say, and says so when they are few."""

from specbook import paths, records
from specbook.report import skill


def test_the_deliverable_is_written_from_todays_records():
    kept = (paths.root() / "outputs" / "skill-inference-server.md").read_text()
    assert kept == skill.text(), "write it again: specbook skill"


def test_the_page_says_what_was_measured_on_a_gpu():
    targets = [run.point.target for run in records.load() if run.hardware.gpu_name]
    assert targets
    assert all(one.load_format == "dummy" or one.name.startswith("pocket-") for one in targets)


def test_no_shipped_target_is_left_out_of_the_deliverable():
    rubric = skill.text().split("## The stack")[0]
    assert rubric.count("x at matched quality") == 3
    assert "not measured" not in rubric
