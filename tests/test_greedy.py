"""Greedy answers over HTTP, faked, and the margin at a fork, on a tiny random model."""

import httpx
import pytest

from specbook import greedy
from specbook.engine.vllm import VllmServer
from specbook.errors import EngineError
from specbook.lossless import Divergence

REPLY = {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [3, 4], "message": {"content": "ok"}}]}


class FakeServer(VllmServer):
    def __init__(self):
        self.api_key, self.port = "secret", 1
        self.target = type("T", (), {"name": "pocket"})


def replying(monkeypatch, reply, status=200):
    """Answer every POST with `reply`; returns the list of what was sent."""
    sent = []

    def post(url, **how):
        sent.append(how)
        return httpx.Response(status, json=reply, request=httpx.Request("POST", url))

    monkeypatch.setattr(httpx, "post", post)
    return sent


def test_answers_keep_the_prompts_order_and_ask_greedily(monkeypatch):
    sent = replying(monkeypatch, REPLY)
    got = greedy.answers(FakeServer(), ["a", "b"], max_tokens=7)
    assert [answer.token_ids for answer in got] == [(3, 4), (3, 4)]
    assert [how["json"]["messages"][0]["content"] for how in sent] == ["a", "b"]
    assert (sent[0]["json"]["temperature"], sent[0]["json"]["max_tokens"]) == (0.0, 7)
    assert sent[0]["json"]["return_token_ids"] is True
    assert sent[0]["headers"] == {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        ({}, 500, "did not answer"),
        ({"choices": [{"message": {"content": "x"}}]}, 200, "no token ids"),
        (REPLY | {"prompt_token_ids": None}, 200, "no token ids"),
    ],
)
def test_a_server_that_gives_no_tokens_is_an_error(monkeypatch, reply, status, message):
    replying(monkeypatch, reply, status)
    with pytest.raises(EngineError, match=message):
        greedy.ask(FakeServer(), "a", 5)


def fork(a, b):
    return Divergence(prompt_id="p", index=1, token_a=a, token_b=b)


@pytest.mark.engine  # no server, but torch and transformers, which take long to import
def test_margins_are_the_targets_own_logit_gaps(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    with torch.inference_mode():
        logits = model(torch.tensor([[1, 2, 3]])).logits[0, -1]
    got = greedy.margins(str(tmp_path), [[1, 2, 3]] * 3, [fork(4, 9), fork(9, 4), fork(None, 4)])
    assert got[0] == pytest.approx(float(logits[4] - logits[9]), abs=1e-5)
    assert got[1] == pytest.approx(-got[0])
    assert got[2] is None


def test_margins_need_a_context_each():
    assert greedy.margins("nowhere", [], []) == []
    with pytest.raises(ValueError, match="one context per divergence"):
        greedy.margins("nowhere", [], [fork(1, 2)])
