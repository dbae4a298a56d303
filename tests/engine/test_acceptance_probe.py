"""A probe of the echo engine: what each category accepts, within its time; refusals; who cannot tell."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from specbook.analysis import acceptance
from specbook.bench.acceptance_probe import interleaved, probe
from specbook.cli.main import app
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Speculation, Target
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError, RefusedError

pytestmark = pytest.mark.usefixtures("echo")
TARGET = Target(name="echo", model="models/pocket-dense", max_model_len=512, engine="echo")
NGRAM = Speculation(method="ngram", num_speculative_tokens=3)


@pytest.fixture
def up(tmp_path):
    with Server(TARGET, NGRAM, log_dir=tmp_path) as running:
        yield running


def prompt(domain: str, words: int, name: str) -> Prompt:
    return Prompt(id=name, prompt=" ".join(["w"] * words), domain=domain)


def test_each_domain_is_told_by_its_own_counters(up):
    asked = [prompt("long", 8, "a"), prompt("short", 5, "b"), prompt("long", 4, "c"), prompt("one", 1, "d")]
    found = list(probe(up, asked, max_tokens=20, seconds=60))
    assert [one.output_tokens for one in found] == [8, 5, 4, 1]
    table = acceptance.of_probe(found).set_index("domain")
    # Steps of four words: 8 is two full drafts, 5 one and an empty one, 4 a full one.
    assert table["length"].to_dict() == pytest.approx({"long": 4.0, "short": 2.5, "one": 1.0})
    assert table.loc["long", "joint"].tolist() == [1, 1, 1]
    assert table["prompts"].to_dict() == {"long": 2, "short": 1, "one": 1}


def test_micro_and_macro_averages_differ(up):
    table = acceptance.of_probe(
        probe(up, [prompt("x", 40, "a"), prompt("x", 1, "b")], max_tokens=40, seconds=60)
    )
    assert table["length"].tolist() == pytest.approx([41 / 11])
    assert table["macro"].tolist() == pytest.approx([(4 + 1) / 2])


def test_no_prompt_begins_after_the_time_is_spent(up):
    clock = itertools.count().__next__
    # One look to begin with, then one before each prompt and two around it.
    found = list(probe(up, [prompt("x", 4, str(i)) for i in range(9)], max_tokens=4, seconds=8, clock=clock))
    assert len(found) == 3


def test_domains_take_turns_whatever_their_number():
    many = [prompt("many", 1, f"m{i}") for i in range(20)] + [prompt("few", 1, f"f{i}") for i in range(2)]
    order = [one.domain for one in interleaved(many, seed=0, unnamed="x")]
    assert sorted(order[:2]) == sorted(order[2:4]) == ["few", "many"]
    assert [one.id for one in interleaved(many, 1, "x")] != [one.id for one in interleaved(many, 2, "x")]
    assert interleaved([Prompt(id="a", prompt="b")], 0, "tickets")[0].domain == "tickets"


def test_a_server_that_does_not_draft_has_nothing_to_accept(tmp_path):
    with (
        Server(TARGET, None, log_dir=tmp_path) as running,
        pytest.raises(ConfigError, match="does not draft"),
    ):
        list(probe(running, [prompt("x", 4, "a")], max_tokens=4, seconds=60))


def refusing(up, monkeypatch, but: int = 0):
    answers = itertools.count()
    chat = up.client.chat

    def answer(*given):
        if next(answers) < but:
            return chat(*given)
        raise RefusedError("the server refused: this model's context is 512 tokens")

    monkeypatch.setattr(up.client, "chat", answer)


def test_a_refused_prompt_is_counted_and_the_next_is_asked(up, monkeypatch):
    refusing(up, monkeypatch, but=2)
    found = list(probe(up, [prompt("x", 4, str(i)) for i in range(5)], max_tokens=4, seconds=60))
    table = acceptance.of_probe(found)
    assert (table["prompts"].tolist(), table["refused"].tolist()) == ([2], [3])


def test_refusals_on_end_are_an_error(up, monkeypatch):
    refusing(up, monkeypatch)
    with pytest.raises(EngineError, match=r"5 prompts on end were refused, .*context is 512"):
        list(probe(up, [prompt("x", 4, str(i)) for i in range(9)], max_tokens=4, seconds=60))


def test_a_server_that_ends_is_an_error(up):
    asked = probe(up, [prompt("x", 4, str(i)) for i in range(9)], max_tokens=4, seconds=60)
    next(asked)
    up.stop()
    with pytest.raises(EngineError):
        next(asked)


# the command


def run(*arguments: str):
    return CliRunner().invoke(app, ["probe", *arguments])


def test_the_command_reports_each_category(up, tmp_path):
    lines = [{"prompt": "a b c d", "category": "[full]"}, {"prompt": "a", "category": "none"}]
    traffic = tmp_path / "traffic.jsonl"
    traffic.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run(str(traffic), "--url", up.client.url)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert ["[full]", "1", "4.00"] in [row[:3] for row in rows]
    assert ["none", "1", "1.00"] in [row[:3] for row in rows]
    assert "2 of 2 prompts asked" in done.output


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ('{"prompt": ', "line 1 is not JSON"), ('{"title": "x"}', "prompt and messages")],
)
def test_the_command_refuses_a_bad_file_in_one_line(tmp_path, text, words):
    (tmp_path / "traffic.jsonl").write_text(text)
    done = run(str(tmp_path / "traffic.jsonl"))
    assert (done.exit_code, words in done.output) == (1, True), done.output
    assert "Traceback" not in done.output


def test_the_command_refuses_what_does_not_draft(tmp_path):
    assert "no such file" in run("nothing.jsonl").output
    (tmp_path / "traffic.jsonl").write_text('{"prompt": "x"}')
    assert "does not draft" in run(str(tmp_path / "traffic.jsonl"), "--profile", "cpu/baseline").output
    assert "no server answers" in run(str(tmp_path / "traffic.jsonl"), "--url", "http://127.0.0.1:9").output
