"""Odd environments: the command does its work in them, or says in one message what it lacks."""

import os

import pytest
from torture_project import Project

CHECK, DRY = ("check",), ("run", "01", "--dry-run")
GOOD = {
    "no locale, columns or network, and the caller's own keys": (
        DRY,
        {
            "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "", "COLUMNS": "0", "LINES": "0", "TERM": "",
            "http_proxy": "http://127.0.0.1:9", "https_proxy": "x", "ALL_PROXY": "socks5://x",
            "VLLM_API_KEY": "x", "ECHO_KEY": "y", "SPECBOOK_API_KEY": "z",
        },
    ),
    "an ASCII terminal of no known width, and HOME is the root": (
        DRY, {"PYTHONIOENCODING": "ascii", "TERM": "dumb", "COLUMNS": "wide", "HOME": "/"},
    ),
    "no programs, assertions or HOME": (DRY, {"PATH": "", "PYTHONOPTIMIZE": "2", "HOME": "/nowhere"}),
    "no folder for scratch, in an early time zone": (
        CHECK, {"TMPDIR": "/nowhere", "TZ": "Pacific/Kiritimati"},
    ),
}  # fmt: skip
"""What a command bears, several at a time: to start it takes seconds."""
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
def test_it_says_what_is_wrong_with(small, name):
    arguments, environment, words = BAD[name]
    said = small.run(*arguments, environment=environment)
    assert said.code == 1
    said.clear()
    assert words in said.err


def test_a_non_ascii_project_under_an_ascii_locale(tmp_path):
    """A whole campaign: its paths go through the engine's and the load generator's processes."""
    project = Project(tmp_path / "größe ✓")
    environment = {"LC_ALL": "C", "LANG": "C"}
    said = project.run("run", "01", "--group", "quick", environment=environment)
    assert (said.code, "8 points measured now, 0 of them failed" in said.out) == (0, True), said
    assert project.run("check", environment=environment).out == "8 records read, 0 bad\n"
    project.nothing_runs()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_behind_a_stream_is_no_traceback(small, stream):
    with open("/dev/full", "w") as full:
        said = small.run(*DRY, **{stream: full})
    assert "Traceback" not in said.out + said.err
    assert (said.code == 0) == (stream == "stderr")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_nobody_reads_a_stream(small, stream):
    """As `specbook run ... | head` leaves it."""
    reader, writer = os.pipe()
    os.close(reader)
    said = small.run(*DRY, **{stream: writer})
    os.close(writer)
    assert "Traceback" not in said.out + said.err
