"""What repeats is said once, and comes back exactly as it was."""

import json

import pytest

from specbook.records import once

ORIGIN = {
    "versions": {"torch": "2.13.0+cpu", "numpy": "2.3.5"},
    "command": ["serve", "--port", "48405", "x" * 30],
}


def lines_and_back(documents):
    lines = once.folded(documents)
    return lines, list(once.unfolded(lines))


@pytest.mark.parametrize(
    "documents",
    [
        [],
        [{}],
        [{"a": 1}, {"a": 1}, {"a": None}],
        [{"n": i, "origin": ORIGIN} for i in range(3)],
        [{"a": ORIGIN, "b": [ORIGIN, ORIGIN["command"]]}, {"a": {**ORIGIN, "more": ORIGIN}}],
        [{"text": "line\nbreaks \u2028 \x85 and ünïcode " * 3, "n": i} for i in range(2)],
        [{"x": 0.1 + 0.2, "y": 1e-300, "z": -0.0, "deep": [[[["y" * 50]]], [[["y" * 50]]]]}],
        [{"": {"": ["z" * 60, "z" * 60]}}],
    ],
    ids=range(8),
)
def test_documents_come_back_as_they_went(documents):
    lines, back = lines_and_back(documents)
    assert json.dumps(back) == json.dumps(documents)
    assert not any("\n" in line for line in lines)


def test_what_repeats_is_said_once():
    text = "\n".join(once.folded([{"n": i, "origin": ORIGIN} for i in range(50)]))
    assert text.count("2.13.0+cpu") == text.count("48405") == 1


def test_a_part_is_not_named_if_only_the_whole_repeats():
    lines = once.folded([{"n": i, "origin": ORIGIN} for i in range(3)])
    assert [json.loads(line).get("once") for line in lines] == ["origin.1", None, None, None]


def test_what_is_short_or_unique_stays_where_it_is():
    documents = [{"short": "abc", "long": f"{i}" * 60} for i in range(3)]
    assert once.folded(documents) == [json.dumps(one, separators=(",", ":")) for one in documents]


def test_a_value_that_nobody_said_is_an_error():
    lines = [line for line in once.folded([{"origin": ORIGIN}] * 2) if '"is"' not in line]
    with pytest.raises(KeyError, match=r"origin\.1"):
        list(once.unfolded(lines))
