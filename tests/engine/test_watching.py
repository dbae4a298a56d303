"""A server whose counters are played: learned from, watched, and told where they end."""

import json
import re

import numpy as np
import pytest
from test_client import METRICS, MODELS, serving
from typer.testing import CliRunner

from specbook.cli import serving as command
from specbook.cli.main import app

USUAL, FALLEN = 1.8, 1.4


def page(drafts, accepted, tokens, started=1.0):
    """A page of a vLLM that has drafted so much; the rest as it was recorded."""
    counted = {"num_drafts": drafts, "num_draft_tokens": 3 * drafts, "num_accepted_tokens": accepted}
    text = METRICS.replace('"m2"', '"mine"')
    for name, value in counted.items():
        text = re.sub(rf"(spec_decode_{name}_total\{{[^}}]*\}}) \S+", rf"\1 {value}", text)
    text = re.sub(r"(generation_tokens_total\{[^}]*\}) \S+", rf"\1 {tokens}", text)
    return f"process_start_time_seconds {started}\n{text}"


class Played:
    """Ticks that move a server's counters: acceptance per draft is `usual` for so many, then `then`."""

    def __init__(self, pages, usual=40, then=(), seed=0):
        rng = np.random.default_rng(seed)
        self.pages, self.drafts, self.accepted, self.started = pages, 0, 0, 1.0
        self.to_come = [("drafts", USUAL + 0.05 * rng.standard_normal()) for _ in range(usual)]
        self.to_come += list(then)
        self.show()

    def show(self):
        self.pages["/metrics"] = page(self.drafts, self.accepted, self.drafts + self.accepted, self.started)

    def __call__(self, every, length):
        for event, value in self.to_come:
            if event == "drafts":
                self.drafts, self.accepted = self.drafts + 500, self.accepted + round(500 * value)
            elif event == "restart":
                self.drafts, self.accepted, self.started = 0, 0, value
            elif event == "gone":
                del self.pages["/metrics"]
                yield
                continue
            elif event == "interrupt":
                raise KeyboardInterrupt
            self.show()
            yield


def run(monkeypatch, *options, **played):
    """What `watch` says of a server, and its exit code."""
    pages = dict(MODELS)
    ticks = Played(pages, **played)
    monkeypatch.setattr(command, "_ticks", ticks)
    with serving(pages) as url:
        return CliRunner().invoke(app, ["watch", "--url", url, *options])


def states(result):
    return [json.loads(line)["state"] for line in result.stdout.splitlines()]


def test_quiet_traffic_ends_with_0(monkeypatch):
    result = run(monkeypatch, "--json")
    assert result.exit_code == 0, result.output
    assert states(result) == ["learning"] * 30 + ["as usual"] * 10
    assert "at most one false alarm in 7 days" in result.stderr


def test_a_fall_ends_with_1_and_its_alarm(monkeypatch):
    result = run(monkeypatch, "--json", then=[("drafts", FALLEN)] * 20)
    assert result.exit_code == 1, result.output
    said = states(result)
    assert said[:40] == ["learning"] * 30 + ["as usual"] * 10
    assert said[-1] == "alarm"
    assert len(said) < 50


def test_a_line_says_when_what_and_how_near(monkeypatch):
    line = run(monkeypatch).stdout.splitlines()[-1]
    assert re.fullmatch(r"\S+\+00:00 as usual, length 2\.\d\d, 500 drafts, statistic -?\d\.\d of 9\.2", line)


def test_rarer_alarms_need_more(monkeypatch):
    last = run(monkeypatch, "--days", "70", "--every", "6").stdout.splitlines()[-1]
    assert last.endswith("of 13.8")


def test_a_restart_and_an_idle_interval_are_told(monkeypatch):
    then = [("restart", 2.0), ("drafts", USUAL), ("idle", None), ("drafts", USUAL)]
    assert states(run(monkeypatch, "--json", then=then))[-4:] == ["restarted", "as usual", "idle", "as usual"]


def test_what_is_expected_may_be_told(monkeypatch):
    assert run(monkeypatch, "--expected", "2.8").exit_code == 0
    assert run(monkeypatch, "--expected", "3.3").exit_code == 1


def test_ctrl_c_ends_with_0(monkeypatch):
    assert run(monkeypatch, usual=3, then=[("interrupt", None)]).exit_code == 0


def test_alarms_that_would_come_at_once_are_refused(monkeypatch):
    result = run(monkeypatch, "--days", "0.02")
    assert result.exit_code == 2
    assert "--days 0.02 has 29 intervals. To fix: 30 (--learn) or more" in result.stderr


@pytest.mark.parametrize("word", ["1", "0.5", "nan"])
def test_an_impossible_length_is_refused(monkeypatch, word):
    result = run(monkeypatch, "--expected", word)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert f"--expected {word}: a length of" in result.stderr


def test_a_server_that_stops_answering_ends_with_2(monkeypatch):
    result = run(monkeypatch, usual=3, then=[("gone", None)])
    assert result.exit_code == 2
    assert "can no longer be read" in result.stderr


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("other_total 1\n", "does not show its counters"),
        ("\n".join(line for line in METRICS.splitlines() if "spec_decode" not in line), "does not draft"),
    ],
)
def test_a_server_without_counters_of_drafts_ends_with_2(metrics, words):
    with serving(MODELS | {"/metrics": metrics}) as url:
        result = CliRunner().invoke(app, ["watch", "--url", url, "--for", "0"])
    assert result.exit_code == 2
    assert words in result.stderr


def test_for_so_many_seconds():
    assert list(command._ticks(0.01, 0.035)) == [None] * 3
