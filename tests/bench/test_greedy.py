"""Greedy answers and margins over HTTP, faked; tests/engine asks a real server."""

import json
from types import SimpleNamespace

import httpx
import pytest

from factories import eagle3, target
from specbook.bench import greedy
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
    client._http = httpx.Client(transport=httpx.MockTransport(answer))
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


def test_an_engine_that_dies_under_a_check_is_named_with_its_last_words():
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


def test_a_margin_is_the_difference_of_what_the_server_says_of_both_tokens():
    running, sent = rating({4: -0.5, 9: -2.25})
    assert greedy.margin_logits(running, (1, 2, 3), 4, 9) == 1.75
    assert greedy.margin_logits(running, (1, 2, 3), 9, 4) == -1.75
    assert [(body["prompt"], body["max_tokens"]) for body in sent] == [([1, 2, 3], 1)] * 4


def test_probabilities_after_the_choice_was_forced_are_refused():
    """Both tokens would be certain, and every margin would be none."""
    running, _ = rating({4: 0.0, 9: 0.0})
    with pytest.raises(EngineError, match="raw log-probabilities"):
        greedy.margin_logits(running, (1, 2), 4, 9)


@pytest.mark.parametrize("found", [None, {"token_logprobs": []}, {"token_logprobs": [None]}])
def test_a_server_that_does_not_rate_tokens_is_an_error(found):
    running, _ = server({"choices": [{"text": "", "logprobs": found}]})
    with pytest.raises(EngineError, match="did not say how likely token 4"):
        greedy.margin_logits(running, (1, 2), 4, 9)
