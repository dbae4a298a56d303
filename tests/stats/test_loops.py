"""Texts that a model wrote until its cap, and texts that only look alike."""

import json

import pytest

from specbook.stats import loops

LOOPS = [  # ends of shipped answers
    "        ld_header = line.replace('\\\\')\n" * 9 + "        ld_header =",
    'the "case" block is in ' * 12 + "the",
    "A list. Arguments: " + "- " * 120,
    "data[i + 1" + ":" * 130,
    "self.push(" * 30 + "self.",
]
NO_LOOPS = [
    "",
    "x",
    json.dumps([0] * 60),
    json.dumps([{"id": i, "name": "a"} for i in range(20)]),
    "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5,
    "-" * 79,
    "def f():\n" + "    items.append(1)\n" * 5,
    "for x in y:\n    pass\n" * 9 + "done\n",
    "".join(f"{i}. step {i}\n" for i in range(60)),
    " ".join(f"word{i * i % 97}" for i in range(200)),
]


@pytest.mark.parametrize("text", LOOPS)
def test_a_unit_repeated_to_the_end_is_a_loop(text):
    assert loops.repeats(text)
    assert loops.repeats("Before it comes something else. " + text)


@pytest.mark.parametrize("text", NO_LOOPS)
def test_rows_alike_and_counting_are_no_loop(text):
    assert not loops.repeats(text)


def test_both_thresholds_count():
    unit = "0123456789abcdefghij"
    assert loops.repeats(unit * loops.TIMES)
    assert not loops.repeats(unit * (loops.TIMES - 1))
    assert loops.repeats("ab" * (loops.LEAST_CHARACTERS // 2))
    assert not loops.repeats("ab" * (loops.LEAST_CHARACTERS // 2 - 1))
