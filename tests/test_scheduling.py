"""`specbook schedule`: one command from a reader's records to what a server takes, or one message."""

import json
import shlex

import pytest
import yaml
from typer.testing import CliRunner

import synthetic
from specbook import config
from specbook.cli.main import app
from specbook.config.machines import Profile

THREE = ("02", "--group", "quick", "--set", "restarts=3", "--set", "concurrency=[1]")
ROWS = [[1, 1, 5], [2, 32, 0]]


@pytest.fixture(autouse=True, scope="module")
def measured(tmp_path_factory):
    """Made-up records of the quick plan at batch 1, with three restarts."""
    with pytest.MonkeyPatch.context() as patch:
        where = tmp_path_factory.mktemp("results")
        patch.setenv("SPECBOOK_RESULTS", str(where))
        patch.setenv("COLUMNS", "200")
        synthetic.write(config.load("02_eagle3", "cpu", "quick", restarts=3, concurrency=[1]))
        yield where


@pytest.fixture(autouse=True)
def _results(measured, _not_the_books, monkeypatch):
    """Where the records are, whatever the fixtures of every test have cleared."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(measured))


def invoke(*arguments):
    return CliRunner().invoke(app, ["schedule", *arguments])


def complaint(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


def test_the_table_gives_reasons_and_the_option():
    said = invoke(*THREE).stdout.splitlines()
    assert "cpu-simulated-2c · pocket-dense float32 · 3 restarts an arm" in said[0]
    assert said[0].endswith("chat, code and json, compiled")
    (row,) = [line for line in said if "batch 1:" in line]
    assert "K=5, the best lower bound: " in row
    assert "n=3 restarts" in row
    option, text = shlex.split(said[-1])
    assert option == "--speculative-config"
    assert json.loads(text)["num_speculative_tokens_per_batch_size"] == ROWS


def test_the_profile_is_one_that_serve_takes():
    (entry,) = yaml.safe_load(invoke(*THREE, "--as", "profile").stdout).items()
    name, profile = entry[0], Profile.model_validate(entry[1])
    assert name == "pocket-dense-by-batch"
    plan = config.load("02_eagle3", "cpu", "quick")
    assert profile.target == plan.target
    assert [list(row) for row in profile.speculation.num_speculative_tokens_per_batch_size] == ROWS


def test_the_patch_says_what_the_overlay_does_otherwise():
    result = invoke(*THREE, "--as", "patch")
    assert "measured in float32, compiled; served in float32, eager" in result.stderr
    assert "# batch 1: K=5, the best lower bound" in result.stdout
    (patch,) = yaml.safe_load(result.stdout)["patches"]
    test, change = yaml.safe_load(patch["patch"])
    assert (test["op"], change["op"], test["path"]) == ("test", "replace", change["path"])
    assert json.loads(change["value"].partition("=")[2])["num_speculative_tokens_per_batch_size"] == ROWS


def test_too_few_restarts_are_one_message():
    few = complaint("02", "--group", "quick", "--set", "restarts=2", "--set", "concurrency=[1]")
    assert "EAGLE-3 at batch 1 has 2 restarts" in few
    assert "To fix: measure 1 more" in few


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*THREE, "--as", "profil"), "no form 'profil' (did you mean 'profile'?)"),
        (
            (*THREE, "--machine", "none"),
            "machine 'none' has no record of it. To fix: --machine cpu-sim",
        ),
        (
            (*THREE, "--as", "patch", "--overlay", "gpu"),
            "overlay 'gpu' serves qwen3-32b-fp8, not pocket-dense",
        ),
        (("0",), "'0' names ["),
    ],
)
def test_a_mistake_is_one_message(arguments, message):
    assert message in complaint(*arguments)
