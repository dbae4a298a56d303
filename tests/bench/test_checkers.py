import json
from dataclasses import asdict

import pytest

from pocket.corpus import DOMAINS, UNSEEN, held_out
from specbook.bench.answer_checkers import check, loops


def _wrong(row):
    """The reference answer with one mistake a model could make."""
    answer, spec = row["answer"], row["check"]
    if row["domain"] == "math":
        return answer.replace(f"#### {spec['answer']}", f"#### {spec['answer'] + 1}")
    if row["domain"] == "json":
        return answer.replace('"total": ', '"total": 1')
    if row["domain"] == "sql":
        return answer.replace("SELECT ", "SELECT DISTINCT ")
    if row["domain"] == "prose":
        return answer + " And so"
    if row["domain"] == "code":
        return answer + "\n    return ("
    return answer.replace(spec["name"], "os.other")


@pytest.mark.parametrize("domain", [*DOMAINS, *UNSEEN])
def test_every_reference_passes_and_its_perturbed_copy_fails(domain):
    for row in map(asdict, held_out(domain)):
        assert check(row, row["answer"]), row["id"]
        assert not check(row, _wrong(row)), row["id"]
        assert not check(row, ""), row["id"]


@pytest.mark.parametrize("domain", [*DOMAINS, *UNSEEN])
def test_a_check_survives_json(domain):
    row = json.loads(held_out(domain, 1)[0].to_json())
    assert check(row, row["answer"])


@pytest.mark.parametrize(
    ("output", "ok"),
    [
        ("so 2 + 3 = 5\n#### 5", True),
        ("#### 4\n#### 5", True),
        ("5", False),
        ("#### 5 6", False),
        ("#### 5\n#### 4", False),
    ],
)
def test_math_reads_the_number_after_the_last_marker(output, ok):
    assert check({"check": {"kind": "math_exact", "answer": 5}}, output) is ok


@pytest.mark.parametrize(
    ("output", "ok"),
    [
        ('{"n": 1}', True),
        ('{\n "n": 1\n}', True),
        ('{"n": true}', False),
        ('{"n": 1}}', False),
        ('{"n": 1, "m": 2}', False),
    ],
)
def test_json_compares_values_not_spacing(output, ok):
    assert check({"check": {"kind": "json_exact", "object": {"n": 1}}}, output) is ok


def test_code_refuses_a_second_statement_after_the_function():
    row = {"check": {"kind": "code_parses", "snippet": "def f(x):\n    y = x\n"}}
    assert check(row, "    return y")
    assert not check(row, "    return y\nprint(1)")


def test_chat_needs_the_kind_as_well_as_the_name():
    row = {"check": {"kind": "chat_names", "name": "os.walk", "object_kind": "function"}}
    assert check(row, "The function `os.walk` walks.")
    assert not check(row, "The class `os.walk` walks.")


def test_prose_says_nothing_twice():
    row = {"check": {"kind": "prose_sentences"}}
    assert check(row, "It is a list of names. It is a set.")
    assert not check(row, "It is a list of names. It is a list of names.")
    assert not check(row, "A list.")


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="rhyme"):
        check({"check": {"kind": "rhyme"}}, "")


@pytest.mark.parametrize(
    ("ids", "stuck"),
    [([*range(8)] * 4, True), ([*range(8)] * 3, False), ([7] * 11, True), ([7] * 10, False), ([], False)],
)
def test_loops_counts_repeated_runs(ids, stuck):
    assert loops(ids) is stuck


@pytest.mark.parametrize(
    ("output", "ok"),
    [
        ("SELECT a\nFROM t;", True),
        ("SELECT a FROM t", True),
        ("SELECT a FROM t; SELECT b FROM t;", False),
        ("select a FROM t;", False),
        ("", False),
    ],
)
def test_a_query_may_be_broken_into_lines_in_other_ways(output, ok):
    assert check({"check": {"kind": "sql_exact", "query": "SELECT a\nFROM t;"}}, output) is ok


@pytest.mark.parametrize(
    ("output", "right"), [("So 7 + 5 = 12.", True), ("It is 1,012", False), ("12 of 13", False), ("", False)]
)
def test_the_last_number_of_an_answer_counts(output, right):
    assert check({"check": {"kind": "last_number", "answer": 12.0}}, output) == right
    assert check({"check": {"kind": "last_number", "answer": 1012.0}}, "It is $1,012.")
