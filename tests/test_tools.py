"""Tests are left out for want of a program, counted, and never where CI is set."""

from pathlib import Path

import pytest

import tools

pytest_plugins = ["pytester"]
SUITE = """
import pytest, tools
tools.TOOLS["gizmo"] = tools.Tool(("no-such-gizmo", "gizmo-of-old"), "apt-get install gizmo")

@pytest.fixture(scope="module")
def gizmo():
    return tools.need("gizmo")

def test_one(gizmo): pass
def test_two(gizmo): pass
def test_other(): pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs three tests, of which two need a program that is not there."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tools.__file__).parent))
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(SUITE)
    return lambda: pytester.runpytest_inprocess("-p", "tools", "-rs")


def test_without_it_they_are_left_out_and_counted_at_the_end(run):
    done = run()
    done.assert_outcomes(passed=1, skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED *left out, for want of gizmo"])
    assert "2 tests were left out, for want of gizmo. Get it: apt-get install gizmo" in done.outlines[-2]


def test_where_ci_is_set_they_fail(run, monkeypatch):
    monkeypatch.setenv("CI", "true")
    done = run()
    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(["*nothing is left out, and gizmo is missing: apt-get install gizmo"])


def test_any_of_its_names_will_do(pytester, monkeypatch):
    path = pytester.path / "chromium-browser"
    path.write_text("")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(pytester.path))
    assert tools.need("chromium") == str(path)


def test_what_was_tried_again_is_told_with_the_reason(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(tools.__file__).parent))
    pytester.makepyfile("""
        import pytest
        tries = []

        @pytest.mark.flaky(reruns=1)
        def test_second_time(): tries.append(1); assert len(tries) == 2, "the machine stood still"
    """)
    done = pytester.runpytest_inprocess("-p", "tools")
    done.stdout.fnmatch_lines(["tried again: *::test_second_time: AssertionError: the machine stood still*"])
