"""Prompt files: what a line may hold, what is refused and where, and which lines are of which domain."""

import json

import pytest

from specbook.config import prompt_files
from specbook.config.schema import Traffic
from specbook.errors import ConfigError


@pytest.fixture
def file(tmp_path):
    """Writes lines: text as it is, anything else as JSON."""

    def write(*lines, name="mine"):
        path = tmp_path / f"{name}.jsonl"
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return write


def said(content, role="user"):
    return {"role": role, "content": content}


def test_all_prompts_are_read_in_file_order(file):
    found = prompt_files.load(file(*({"id": f"p{i}", "prompt": f"say {i}", "answer": i} for i in range(5))))
    assert [p.id for p in found] == ["p0", "p1", "p2", "p3", "p4"]
    assert found[3].row == {"id": "p3", "prompt": "say 3", "answer": 3}


FORM = r'A line is \{"prompt": "\.\.\."\} or \{"messages": \[\{"role": "user"'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], f"is empty: .*{FORM}"),
        (["", " "], f"is empty: .*{FORM}"),
        ([{"prompt": "x"}, '{"prompt": "b"'], f"line 2 is not JSON .*{FORM}"),
        ([{"prompt": "x"}, "", {"id": "b"}], f"line 3: prompt and messages are both missing.*{FORM}"),
        ([{"prompt": 7}], f"line 1: prompt: .*valid string, got 7.*{FORM}"),
        (['["x"]'], f"line 1: the line: .*got .'x'.*{FORM}"),
        ([{"messages": "x"}], f"line 1: messages: .*got 'x'.*{FORM}"),
        ([{"messages": [{"content": "x"}]}], f"line 1: messages.0.role: .*{FORM}"),
        ([{"messages": [said([{"type": "text"}])]}], r"line 1: messages\.0\.content: "),
        ([{"messages": []}], "line 1: the prompt is empty"),
        ([{"messages": [said("Hello!", "assistant")]}], "line 1: the prompt is empty"),
        ([{"prompt": "  "}], "line 1: the prompt is empty"),
        ([{"prompt": "x", "domain": "<b>"}], "line 1: domain: .*may not hold '<'"),
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "uses an id twice"),
    ],
)
def test_bad_files_are_refused_by_line(file, lines, words):
    with pytest.raises(ConfigError, match=words):
        prompt_files.load(file(*lines))


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        prompt_files.load(tmp_path / "none.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        prompt_files.load(tmp_path / "binary.jsonl")


def test_what_is_said_twice_counts_once_whatever_its_id(file):
    lines = [{"id": 1, "prompt": "x"}, {"id": 2, "prompt": "y"}, {"id": 3, "messages": [said("x")]}]
    assert [p.id for p in prompt_files.load(file(*lines))] == ["1", "2"]


def test_a_prompt_without_an_id_is_named_by_what_it_says(file):
    lines = [{"prompt": "x"}, {"prompt": "y"}, {"prompt": "x", "domain": "b"}]
    first, again = (prompt_files.load(file(*order)) for order in (lines, lines[::-1]))
    assert {p.id for p in first} == {p.id for p in again}
    assert len({p.id for p in first}) == 3


def test_a_conversation_is_asked_up_to_its_last_answer(file):
    turns = [said("Be brief.", "system"), said("Why?"), said("Because.", "assistant"), said("Really?")]
    with_answer, alone = prompt_files.load(
        file({"messages": [*turns, said("Yes.", "assistant")]}, {"messages": turns[1:2]})
    )
    assert with_answer.turns() == turns
    assert with_answer.prompt == "Really?"
    assert (alone.messages, alone.turns()) == (None, [said("Why?")])


def test_domains_are_those_of_the_lines_or_the_files_own_name(file):
    named = [
        {"prompt": "x", "domain": "faq"},
        {"prompt": "y", "category": "code"},
        {"prompt": "z", "domain": "faq"},
    ]
    path = file(*named)
    assert prompt_files.domains(path) == ("faq", "code")
    asked = Traffic(domain="faq", prompts=str(path))
    assert [p.prompt for p in prompt_files.for_traffic(asked)] == ["x", "z"]
    with pytest.raises(ConfigError, match=r"has no domain 'fqa' \(did you mean 'faq'\?\)"):
        prompt_files.for_traffic(asked.model_copy(update={"domain": "fqa"}))
    assert prompt_files.domains(file({"prompt": "x"}, name="tickets")) == ("tickets",)
    with pytest.raises(ConfigError, match="'z' has no domain, and others have"):
        prompt_files.domains(file(*named[:2], {"prompt": "z"}))


def test_no_shipped_prompt_is_there_twice():
    for domain in ("chat", "code", "json", "math"):
        path = Traffic(domain=domain).file()
        assert len(prompt_files.load(path)) == len(path.read_text(encoding="utf-8").splitlines())
