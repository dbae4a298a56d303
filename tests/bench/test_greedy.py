"""Greedy answers and margins over HTTP, faked, and who judges them; tests/engine asks a real server."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import httpx
import pytest

from factories import eagle3, target
from pocket.corpus import DOMAINS, UNSEEN, held_out
from specbook.bench import greedy
from specbook.bench.greedy import check, loops
from specbook.engine.client import Client
from specbook.errors import EngineError

REPLY = {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [3, 4], "message": {"content": "ok"}}]}


def server(reply, status=200):
    """A server that answers everything with `reply`, and the list of what it was sent."""
    sent = []

    def answer(request):
        sent.append((json.loads(request.content), request.headers["Authorization"]))
        return httpx.Response(status, json=reply)

    client = Client("http://127.0.0.1:1", "pocket", "secret")
    client._http = httpx.Client(transport=httpx.MockTransport(answer), headers=client._http.headers)
    return SimpleNamespace(client=client), sent


def test_answers_keep_the_prompts_order_and_ask_greedily():
    running, sent = server(REPLY)
    got = greedy.answers(running, ["a", "b"], max_tokens=7)
    assert [answer.token_ids for answer in got] == [(3, 4), (3, 4)]
    assert [body["messages"][0]["content"] for body, _ in sent] == ["a", "b"]
    body, key = sent[0]
    assert (body["temperature"], body["max_tokens"], body["return_token_ids"]) == (0.0, 7, True)
    assert key == "Bearer secret"


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        ({}, 500, "the server refused"),
        ({"choices": [{"message": {"content": "x"}}]}, 200, "no token ids"),
        (REPLY | {"prompt_token_ids": None}, 200, "no token ids"),
    ],
)
def test_a_server_that_gives_no_tokens_is_an_error(reply, status, message):
    running, _ = server(reply, status)
    with pytest.raises(EngineError, match=message):
        greedy.ask(running, "a", 5)


def test_an_engine_that_dies_is_named_with_its_error():
    running, _ = server({}, 500)
    running.target, running.speculation = target(), eagle3(3)
    running.diagnosis = lambda error: f"{error}. vLLM was ended by SIGKILL: no memory (log: x.log)"
    words = r"answers of pocket, EAGLE-3 K=3 \(compiled\): the server refused.*SIGKILL: no memory .log: x.log"
    with pytest.raises(EngineError, match=words):
        greedy.answers(running, ["a", "b"], max_tokens=7)


def rating(log_probabilities):
    """A server that says of each token how likely it is, and the list of what it was sent."""
    sent = []

    def answer(request):
        sent.append(json.loads(request.content))
        found = {"token_logprobs": [log_probabilities[token] for token in sent[-1]["allowed_token_ids"]]}
        return httpx.Response(200, json={"choices": [{"text": "", "logprobs": found}]})

    client = Client("http://127.0.0.1:1", "pocket", None)
    client._http = httpx.Client(transport=httpx.MockTransport(answer))
    return SimpleNamespace(client=client), sent


def test_a_margin_is_a_difference_of_log_probabilities():
    running, sent = rating({4: -0.5, 9: -2.25})
    assert greedy.margin_logits(running, (1, 2, 3), 4, 9) == 1.75
    assert greedy.margin_logits(running, (1, 2, 3), 9, 4) == -1.75
    assert [(body["prompt"], body["max_tokens"]) for body in sent] == [([1, 2, 3], 1)] * 4


def test_probabilities_of_a_forced_choice_are_refused():
    """Both tokens would be certain, and every margin would be none."""
    running, _ = rating({4: 0.0, 9: 0.0})
    with pytest.raises(EngineError, match="raw log-probabilities"):
        greedy.margin_logits(running, (1, 2), 4, 9)


@pytest.mark.parametrize("found", [None, {"token_logprobs": []}, {"token_logprobs": [None]}])
def test_a_server_that_does_not_rate_tokens_is_an_error(found):
    running, _ = server({"choices": [{"text": "", "logprobs": found}]})
    with pytest.raises(EngineError, match="did not say how likely token 4"):
        greedy.margin_logits(running, (1, 2), 4, 9)


# checkers


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
