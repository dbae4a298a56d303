"""A gate: what fails it, the report it leaves, its false alarms and its power over replays."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from specbook.analysis import gate
from specbook.analysis.gate import Thresholds
from specbook.cli.main import app
from two_sides import DAYS, NOISY, side, slower


@pytest.fixture(autouse=True)
def results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    return tmp_path


def both(share=0.0, **how):
    return side("A", shared=True), side("B", slower(share), shared=True, **how)


def passed(sides, **thresholds):
    """Check -> whether it passed."""
    _, checks = gate.check(*sides, Thresholds(**thresholds))
    return {check.name: check.passed for check in checks}


@pytest.mark.parametrize(
    ("slowdown", "threshold", "want"), [(0.1, 0.05, False), (0.1, 0.2, True), (0.0, 0.05, True)]
)
def test_only_a_slowdown_beyond_the_threshold_fails(slowdown, threshold, want):
    assert passed(both(slowdown), tokens_per_s=threshold) == {"tokens_per_s: all cells": want}


@pytest.mark.parametrize(("step_s", "want"), [(0.02, False), (0.005, True)])
def test_a_longer_step_fails_and_a_shorter_one_does_not(step_s, want):
    assert passed(both(step_s=step_s), step_s=0.1)["step_s: all cells"] is want


def test_each_cell_is_checked_at_a_level_of_all():
    found, checks = gate.check(*both(0.1), Thresholds(by_cell=True))
    cell = "measured, cpu-test-2c, pocket, bfloat16, compiled, EAGLE-3 K=3, models/eagle3, batch 1, json"
    assert [check.name for check in checks] == ["tokens_per_s: all cells", f"tokens_per_s: {cell}"]
    assert {check.ratio.level for check in checks} == {0.975}
    assert found.overall["tokens_per_s"].level == 0.975


def test_what_cannot_be_told_fails_where_that_is_asked():
    sides = side("A", NOISY), side("B", NOISY)
    assert passed(sides) == {"tokens_per_s: all cells": True}
    assert passed(sides, cannot_tell="fail") == {"tokens_per_s: all cells": False}


def invoke(*arguments):
    return CliRunner().invoke(app, ["gate", *arguments])


def test_exit_codes_are_0_1_and_2(results):
    both(0.1)
    a, b = (f"date={day}" for day in DAYS.values())
    report = results / "report.xml"
    assert invoke(a, b, "--tolerance", "0.2").exit_code == 0
    assert invoke(a, b, "--junit", str(report)).exit_code == 1
    suite = ElementTree.parse(report).getroot()[0]
    assert suite.attrib == {"name": "specbook gate", "tests": "1", "failures": "1"}
    assert "worse, B/A 0.900" in suite[0][0].attrib["message"]
    for bad in ((a,), (a, "date=2025"), (a, b, "--junit", str(results))):
        told = invoke(*bad)
        assert (told.exit_code, len(told.stderr.splitlines())) == (2, 1), bad


def test_a_misspelt_threshold_of_a_file_is_refused(results):
    both(0.1)
    a, b = (f"date={day}" for day in DAYS.values())
    file = results / "gate.yaml"
    file.write_text("tokens_per_s: 0.2\nlength: 0.1\n")
    told = invoke(a, b, "--thresholds", str(file))
    assert told.exit_code == 0
    assert "ok length: all cells" in told.output
    file.write_text("tokens_per_sec: 0.2\n")
    told = invoke(a, b, "--thresholds", str(file))
    assert told.exit_code == 2
    assert "did you mean 'tokens_per_s'" in told.stderr


def replayed(sd, drift=0.0, cells=40, rounds=6, sessions=1):
    """Windows of one arm: `rounds` in each session, whose own speed is off by `drift`."""
    rng, rows = np.random.default_rng(0), []
    names = dict.fromkeys((*gate.CELL, "asked"), "x")
    facts = dict.fromkeys(("build", "options", "target_sha256", "draft_sha256", "host"), "x")
    for session in range(sessions):
        off = rng.normal(0, drift)
        rows += [
            {**names, "domain": f"d{cell}", "round": f"{session}-{i}", "restart": i,
             "tokens_per_s": 100 * np.exp(off + rng.normal(0, sd)), "facts": {**facts, "date": str(session)}}
            for cell in range(cells) for i in range(rounds)
        ]  # fmt: skip
    return pd.DataFrame(rows)


def shares(windows, rounds, over="a cell"):
    """Slowdown -> share called worse."""
    table = gate.alarms(windows)
    table = table[(table["rounds"] == rounds) & (table["over"] == over)]
    return {row.slowdown: row.estimate.value for row in table.itertuples()}


def test_replays_of_one_session_keep_the_nominal_rate():
    found = shares(replayed(0.05), "of one session")
    assert found[0.0] == pytest.approx(0.025, abs=0.02)
    assert found[0.02] < found[0.05] < found[0.1]


def test_all_cells_together_see_a_slowdown_that_one_does_not():
    windows = replayed(0.05)
    assert shares(windows, "of one session")[0.1] < shares(windows, "of one session", "all cells")[0.1] == 1


def test_two_sessions_give_more_false_alarms_than_promised():
    windows = replayed(0.02, drift=0.3, sessions=6, rounds=3)
    assert shares(windows, "of two sessions")[0.0] > 0.3
    assert not shares(windows, "of one session")  # three rounds cannot be split into three and three


def test_the_plan_asks_for_more_restarts_for_less_slowdown():
    a, b = side("A", NOISY, shared=True), side("B", slower(0.1, NOISY), shared=True)
    paired, alone = gate.plan(a, b), gate.plan(a)
    assert list(paired["slowdown"]) == [0.02, 0.05, 0.1]
    assert paired["together"].is_monotonic_decreasing
    assert (alone["together"] > paired["together"]).all()


def test_the_plan_prints_its_table():
    side("A")
    told = invoke(f"date={DAYS['A']}", "--plan", "--power", "0.9")
    assert told.exit_code == 0
    assert "a power of 90 %" in told.output
