"""What a pod's end does to an answer under way: SIGTERM to the server's first process, as a kubelet sends it.

Each test ends its server, so it needs one of its own, and asks there what the shared one cannot answer.
"""

import os
import signal

import httpx
import pytest

from specbook.engine.server import Server

pytestmark = pytest.mark.engine
TOKENS = 300
GAP_S = 20
"""Between two tokens: a server that cuts an answer leaves its client waiting, and waits for it to go."""


def ended_in_flight(server: Server, key: str | None) -> list[str]:
    """The lines of one streamed answer whose server is told to end after the first of them."""
    body = {
        "model": "tiny", "messages": [{"role": "user", "content": "count"}], "max_tokens": TOKENS,
        "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    url, headers = f"{server.client.base_url}/chat/completions", {"Authorization": f"Bearer {key}"}
    lines = []
    try:
        with httpx.stream("POST", url, json=body, headers=headers, timeout=GAP_S, trust_env=False) as answer:
            for line in filter(None, answer.iter_lines()):
                if not lines:
                    os.kill(server.pids()[0], signal.SIGTERM)
                lines.append(line)
    except httpx.HTTPError as error:
        lines.append(f"cut off: {error}")
    return lines


def test_a_shutdown_timeout_lets_the_answer_finish(target, tmp_path):
    """Both as the manifests have it."""
    drained = target.model_copy(update={"extra_args": ("--shutdown-timeout=120",)})
    with Server(drained, api_key="k", log_dir=tmp_path) as server:
        assert httpx.get(f"{server.client.url}/metrics", trust_env=False).status_code == 401
        assert server.counters().server.requests_finished == 0
        lines = ended_in_flight(server, "k")
    assert lines[-1] == "data: [DONE]"
    assert f'"completion_tokens":{TOKENS}' in lines[-2]


def test_by_default_the_answer_is_cut(target, tmp_path, monkeypatch):
    """The failing control of a drain: vLLM's --shutdown-timeout is 0 unless it is given."""
    monkeypatch.setenv("VLLM_API_KEY", "the-callers-own")
    with Server(target, log_dir=tmp_path) as server:
        assert "vllm:" in httpx.get(f"{server.client.url}/metrics", trust_env=False).text
        lines = ended_in_flight(server, None)
    assert lines[0].startswith("data: {")
    assert f'"completion_tokens":{TOKENS}' not in "".join(lines)
