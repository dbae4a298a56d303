"""Odd environments: the command does its work in them, or says in one message what it lacks."""

import os

import pytest
from torture_project import Project
from typer.testing import CliRunner

from specbook.cli.main import app

CHECK, DRY = ("check",), ("run", "01", "--dry-run")
GOOD = {
    "no locale, width, network, programs, assertions or HOME, and the caller's own keys": (
        DRY,
        {
            "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "", "COLUMNS": "0", "LINES": "0", "TERM": "",
            "http_proxy": "http://127.0.0.1:9", "https_proxy": "x", "ALL_PROXY": "socks5://x",
            "VLLM_API_KEY": "x", "ECHO_KEY": "y", "SPECBOOK_API_KEY": "z",
            "PATH": "", "PYTHONOPTIMIZE": "2", "HOME": "/nowhere",
        },
    ),
    "an ASCII terminal of no known width, no scratch, an early time zone, and HOME is the root": (
        CHECK,
        {
            "PYTHONIOENCODING": "ascii", "TERM": "dumb", "COLUMNS": "wide", "HOME": "/",
            "TMPDIR": "/nowhere", "TZ": "Pacific/Kiritimati",
        },
    ),
}  # fmt: skip
"""What a command bears, many at a time: to start it takes seconds."""
BAD = {
    "a project that is nowhere": (DRY, {"SPECBOOK_ROOT": "/nowhere"}, "no hardware profile 'cpu'"),
    "a project that is a file": (DRY, {"SPECBOOK_ROOT": os.devnull}, "no hardware profile 'cpu'"),
    "results that are a file": (CHECK, {"SPECBOOK_RESULTS": os.devnull}, "is no folder"),
}


@pytest.mark.parametrize("name", GOOD)
def test_it_works_where(small, name):
    arguments, environment = GOOD[name]
    said = small.run(*arguments, environment=environment)
    assert (said.code, "Traceback" in said.err) == (0, False), said
    assert said.out.splitlines()[-1].startswith(("8 points to measure", "0 records read")), said


@pytest.mark.parametrize("name", BAD)
def test_it_says_what_is_wrong_with(monkeypatch, name):
    arguments, environment, words = BAD[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 1
    (line,) = said.stderr.splitlines()
    assert line.startswith("specbook: ")
    assert words in line


def test_a_non_ascii_project_under_an_ascii_locale(tmp_path):
    """A whole campaign: its paths go through the engine's and the load generator's processes."""
    project = Project(tmp_path / "größe ✓")
    environment = {"LC_ALL": "C", "LANG": "C"}
    least = ("--set", "domains=[words]", "--set", "restarts=1")
    said = project.run("run", "01", "--group", "quick", *least, environment=environment)
    assert (said.code, "2 points measured now, 0 of them failed" in said.out) == (0, True), said
    assert project.run("check", environment=environment).out == "2 records read, 0 bad\n"
    project.nothing_runs()


def test_a_full_disk_behind_the_errors_harms_nothing(small):
    """Behind standard output it is told: test_entry.py asks."""
    with open("/dev/full", "w") as full:
        said = small.run(*DRY, stderr=full)
    assert (said.code, "Traceback" in said.out) == (0, False)


def test_nobody_reads_what_is_said(small):
    """As `specbook run ... | head` leaves it."""
    reader, writer = os.pipe()
    os.close(reader)
    said = small.run(*DRY, stdout=writer)
    os.close(writer)
    assert "Traceback" not in said.err
