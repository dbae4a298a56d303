"""The closing table: what failed is a defect, what was lost is counted, what still runs is found."""

import itertools
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torture_project

import torture


@pytest.fixture
def told(monkeypatch):
    """`told(outcome, count)`: the lines of a table of one case."""
    monkeypatch.setenv(torture.RUN, f"test-{time.time_ns()}")
    monkeypatch.setattr(torture_project, "GONE_WITHIN_S", 0.2)

    def tell(outcome, count):
        monkeypatch.setattr(torture_project, "COUNT", count)
        table, lines = torture.Table(7, time.monotonic() + 60), []
        report = SimpleNamespace(nodeid="x.py::test_a_case[1]", outcome=outcome, when="call", duration=1.0)
        table.pytest_runtest_logreport(report)
        table.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
        return table, lines

    return tell


def test_a_folders_cases_are_side_by_side():
    folders = [str(Path(name.partition("::")[0]).parent) for name in torture.cases()]
    assert len([*itertools.groupby(folders)]) == len(set(folders)) > 1


@pytest.mark.parametrize(
    ("outcome", "defects", "word"), [("passed", 0, "ok"), ("failed", 1, "DEFECT"), ("skipped", 0, "left out")]
)
def test_what_failed_is_a_defect(told, outcome, defects, word):
    _, lines = told(outcome, torture_project.Count())
    assert lines[-2].startswith(f"seed 7: 1 cases, {defects} defects")
    assert lines[-3].endswith(word)
    assert lines[-1] == "records lost: 0 (of 0 looked for); processes left: 0"


def test_what_cases_found_lost_or_left_is_summed(told):
    table, lines = told("passed", torture_project.Count(records=9, lost=2, left=3))
    assert lines[-1] == "records lost: 2 (of 9 looked for); processes left: 3"
    assert (table.lost, table.left) == (2, 3)


def test_a_process_that_outlives_the_run_is_left(told):
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    process.stdout.readline()
    try:
        table, lines = told("passed", torture_project.Count())
        assert table.left == 1
        assert lines[-1].startswith(f"  {process.pid}: ")
    finally:
        process.communicate()


def test_a_record_that_is_gone_is_counted(small, monkeypatch):
    count = torture_project.Count()
    monkeypatch.setattr(torture_project, "COUNT", count)
    folder = small.results / "machine" / "01_echo"
    folder.mkdir(parents=True)
    (folder / "one.json").write_text("{}")
    small.look()
    (folder / "one.json").unlink()
    monkeypatch.setattr(small, "record_ids", set)
    with pytest.raises(AssertionError):
        small.nothing_is_lost()
    assert (count.records, count.lost) == (1, 1)
