"""What to know of a plan is said before it is measured, wherever it is measured from."""

import json
import re

import pytest

import synthetic
from specbook import config, records
from specbook.bench import campaign, plan_notes

PICTURE = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
SAID = "1 left out: a part of its content is 'image_url', and only text is sent (first: "


@pytest.fixture
def traffic(tmp_path):
    """A file of ten prompts, one that is there already, and a picture."""
    rows = [*({"prompt": f"Count to {n}."} for n in [*range(10), 3]), PICTURE]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


@pytest.fixture
def plan(traffic):
    return config.load("02_eagle3", "cpu", "quick", prompts=str(traffic))


def prompts_said(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("prompts:")]


def test_rows_are_said_once_however_many_sweeps_ask(plan, capsys):
    plan_notes.say([plan, plan])
    repeated, picture = prompts_said(capsys)
    assert repeated.startswith("prompts: 1 counted once: they repeat an earlier prompt (first: ")
    assert picture.startswith(f"prompts: {SAID}")
    assert picture.endswith("log.jsonl, line 12)")


def test_files_that_are_not_here_are_passed_over(plan, traffic):
    traffic.unlink()
    assert plan_notes.of_prompts(plan.traffic()) == []


def test_prompts_that_are_too_long_are_said(traffic, capsys):
    with traffic.open("a") as file:
        file.write(json.dumps({"prompt": "long " * 2000}) + "\n")
    plan_notes.say([config.load("02_eagle3", "cpu", "quick", prompts=str(traffic))])
    assert "1 of 11 prompts" in prompts_said(capsys)[-1]


def test_a_head_past_its_training_is_said(capsys):
    plan_notes.say([config.load("02_eagle3", "cpu", "full")])
    assert "warning: EAGLE-3 K=8 for pocket-dense" in capsys.readouterr().err


def test_a_low_cap_is_named_with_one_that_would_do(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    wide = config.load("02_eagle3", "cpu", "quick", domains=["json"])
    synthetic.write(wide)
    assert plan_notes.low_caps([wide], wide.points()) is None
    short = wide.model_copy(update={"max_tokens": 16})
    problem = plan_notes.low_caps([wide, short], [*wide.points(), *short.points()])
    assert problem.count("max_tokens 16 ends most answers of pocket-dense to json: ") == 1
    enough = int(re.search(r"nine of ten had up to (\d+) tokens where 192 were allowed", problem)[1])
    lengths = [records.requests(run)["output_tokens"] for run in records.load()]
    assert enough in [one.quantile(0.9, interpolation="higher") for one in lengths]
    assert plan_notes.low_caps([short], []) is None
    for sweep in (wide.model_copy(update={"max_tokens": enough}), short.model_copy(update={"capped": True})):
        assert plan_notes.low_caps([sweep], sweep.points()) is None


@pytest.mark.parametrize(("source", "lines"), [("hardware", 2), ("records", 0)])
def test_a_notebook_says_them_before_it_measures(plan, source, lines, monkeypatch, capsys):
    said = []
    monkeypatch.setattr(campaign, "measure", lambda plans: said.extend(prompts_said(capsys)))
    monkeypatch.setattr(campaign.records, "replay", lambda *_: "runs")
    assert campaign.run_or_replay(plan, source) == "runs"
    assert len(said) == lines
