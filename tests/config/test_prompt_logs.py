"""Prompts as they are logged: every row is used, or named and counted with the reason."""

import csv
import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from specbook.config import prompt_files
from specbook.errors import ConfigError

ASK = {"prompt": "Name a river."}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


def said(content, role="user", **more):
    return {"role": role, "content": content, **more}


def turn(who, text):
    return {"from": who, "value": text}


@pytest.fixture
def read(tmp_path):
    """Reads rows, or bytes as they are, from a file of this name."""

    def made(*rows, name="log.jsonl", data=None):
        path = tmp_path / name
        path.write_bytes(
            data if data is not None else "".join(json.dumps(row) + "\n" for row in rows).encode()
        )
        return prompt_files.read(path)

    return made


def asked(found):
    return [prompt.turns() for prompt in found.prompts]


# half a character


@pytest.mark.parametrize("text", ["\ud83d hm", "hm \ude00", "a\udcffb"])
def test_half_a_character_is_replaced_and_counted(read, text):
    found = read(ASK, {"prompt": text})
    assert "\ufffd" in found.prompts[1].prompt
    found.prompts[1].prompt.encode()
    assert found.notes == [
        "1 used with U+FFFD in place of half a character (a lone surrogate) "
        f"(first: {found.notes[0].partition('first: ')[2]}"
    ]
    assert found.notes[0].endswith("log.jsonl, line 2)")


def test_a_whole_pair_of_surrogates_is_one_character(read):
    found = read(data=b'{"prompt": "hi \\ud83d\\ude00"}\n')
    assert (found.prompts[0].prompt, found.notes) == ("hi \U0001f600", [])


# conversations of ShareGPT


def test_a_conversation_that_begins_with_system_is_asked_with_it(read):
    found = read({"conversations": [turn("system", "Be brief."), turn("human", "Why?"), turn("gpt", "So.")]})
    assert asked(found) == [[said("Be brief.", "system"), said("Why?")]]
    assert found.notes == []


def test_conversations_of_roles_and_contents_are_read_too(read):
    assert asked(read({"conversations": [said("Be brief.", "developer"), said("Why?")]})) == [
        [said("Be brief.", "system"), said("Why?")]
    ]


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([turn("gpt", "So."), turn("human", "Why?")], "its conversation begins with 'gpt'"),
        ([turn("system", "Be brief.")], "nobody asks in its conversation"),
        ([], "nobody asks in its conversation"),
        ([turn("human", " ")], "its first question is empty"),
    ],
)
def test_a_mixed_file_counts_what_it_leaves_out(read, turns, reason):
    found = read(ASK, {"conversations": turns}, {"conversations": turns})
    assert len(found.prompts) == 1
    assert found.notes[0].startswith(f"2 left out: {reason} (first: ")
    with pytest.raises(ConfigError, match=f"is empty: 1 left out: {reason}"):
        read({"conversations": turns})


# calls of tools


def test_calls_and_their_results_are_sent_as_they_were(read):
    turns = [
        said("Weather in Rome?"), said(None, "assistant", tool_calls=[CALL]),
        said("Sunny", "tool", tool_call_id="c1"),
    ]  # fmt: skip
    found = read({"messages": turns})
    assert asked(found) == [turns]
    assert found.prompts[0].prompt == "Sunny"


def test_a_message_that_says_and_calls_nothing_is_refused(read):
    with pytest.raises(
        ConfigError, match="line 1: a message of 'assistant' has no content and no tool_calls"
    ):
        read({"messages": [said("x"), said(None, "assistant"), said("y")]})


def test_rows_with_definitions_of_tools_are_left_out_by_name(read):
    found = read(ASK, {"messages": [said("x")], "tools": [{"type": "function"}]})
    assert found.notes[0].startswith("1 left out: it has `tools`, which are not sent")


# parts, roles, wrappings


def test_parts_of_text_become_one_and_other_parts_are_named(read):
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    picture = [*parts, {"type": "image_url", "image_url": {"url": "u"}}]
    found = read({"messages": [said(parts)]}, {"messages": [said(picture)]})
    assert asked(found) == [[said("One.\nTwo.")]]
    assert found.notes[0].startswith(
        "1 left out: a part of its content is 'image_url', and only text is sent"
    )


@pytest.mark.parametrize(
    ("role", "want"),
    [
        ("human", "user"), ("user", "user"), ("gpt", "assistant"), ("model", "assistant"),
        ("developer", "system"),
        ("function", "tool"), ("tool", "tool"), ("assistant", "assistant"), ("system", "system"),
    ],
)  # fmt: skip
def test_roles_are_those_of_chat_templates(read, role, want):
    found = read({"messages": [said("x"), said("y", role), said("z")]})
    assert asked(found)[0][1]["role"] == want


@pytest.mark.parametrize(
    "row",
    [
        {
            "custom_id": "7",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"messages": [said("x")]},
        },
        {"request": {"model": "m", "messages": [said("x")]}, "response": {}},
        {"instruction": "x", "input": "", "output": "y"},
        {"question": "x"},
        {"text": "x"},
        {"query": "x", "messages": None},
    ],
)
def test_a_logged_request_is_found_where_it_stands(read, row):
    assert asked(read(row)) == [[said("x")]]


def test_an_instruction_is_followed_by_its_input(read):
    assert asked(read({"instruction": "Sum up.", "input": "A text."})) == [[said("Sum up.\n\nA text.")]]


@pytest.mark.parametrize(
    ("category", "want"),
    [
        ("Coding & Debugging", "Coding and Debugging"),
        ("Q&A", "Q and A"),
        ("a|b", "a/b"),
        ("a\tb", "a b"),
        ("", None),
    ],
)
def test_a_category_is_written_as_pages_can_show_it(read, category, want):
    assert read(ASK | {"category": category}).prompts[0].domain == want


# files


LINES = b'{"prompt": "a"}\n{"prompt": "b"}\n'
PACKED = gzip.compress(LINES, mtime=0)  # workers that collect in another second name the same tests
ARRAY = b'[\n{"prompt": "a"},\n{"prompt": "b"}\n]'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", LINES),
        ("a.jsonl", b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n")),
        ("a.jsonl", b"\n \n" + LINES + b"\n"),
        ("a.jsonl", ARRAY),
        ("a.txt", ARRAY),
        ("a.json", ARRAY),
        ("a.json", LINES),
        ("a.jsonl.gz", PACKED),
        ("a.jsonl", PACKED),
        ("a.csv", b"\xef\xbb\xbfprompt,category\r\na,x\r\nb,x\r\n"),
        ("a.csv.gz", gzip.compress(b"prompt\na\nb\n", mtime=0)),
    ],
)
def test_files_are_read_in_each_of_their_forms(read, name, data):
    assert [prompt.prompt for prompt in read(name=name, data=data).prompts] == ["a", "b"]


def test_tables_hold_conversations_as_json_or_as_lists(tmp_path, read):
    turns = [said("Be brief.", "system"), said("Why?")]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "messages"], ["7", json.dumps(turns)]])
    assert asked(prompt_files.read(tmp_path / "a.csv")) == [turns]
    parquet.write_table(pa.table({"prompt": ["a", None], "messages": [None, turns]}), tmp_path / "a.parquet")
    assert asked(prompt_files.read(tmp_path / "a.parquet")) == [[said("a")], turns]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl.gz", PACKED[:-9]),
        ("a.jsonl.gz", PACKED[:12] + b"\xff" * 9 + PACKED[21:]),
        ("a.jsonl.gz", b"\x1f\x8b\x00junk"),
        ("a.parquet", b"PAR1 and no more"),
        ("a.parquet", b""),
        ("a.jsonl", "é".encode("latin-1")),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(read, name, data):
    with pytest.raises(ConfigError, match="cannot be read"):
        read(name=name, data=data)


def test_nested_beyond_reason_is_refused_by_line(read):
    with pytest.raises(ConfigError, match="line 1 is not JSON"):
        read(data=b"[" * 100_000)


def test_repeated_prompts_are_counted_once_and_said(read):
    found = read(ASK, ASK, ASK)
    assert len(found.prompts) == 1
    assert found.notes[0].startswith("2 counted once: they repeat an earlier prompt (first: ")
