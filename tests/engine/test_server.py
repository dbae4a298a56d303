"""The server's life: it starts, serves, stops, and never leaves a process behind.

What vLLM does of itself is asked of vLLM, the rest of the echo engine, which is up at once. That no process
of vLLM's is left, test_termination.py asks.
"""

import os
import signal
import socket
import time

import httpx
import psutil
import pytest
from engine_models import make_model
from processes import left, runs

from specbook import engine
from specbook.config.schema import Target
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError


def ask(server: Server, key: str | None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    return httpx.post(
        f"{server.client.base_url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False
    )


@pytest.mark.engine
def test_key_is_enforced_and_shown_nowhere(server):
    assert ask(server, None).status_code == 401
    assert ask(server, "session-secret").json()["usage"]["completion_tokens"] == 4
    for process in psutil.process_iter():
        try:
            assert "session-secret" not in " ".join(process.cmdline())
        except psutil.Error:
            continue
    assert "session-secret" not in server.log_path.read_text()
    assert "session-secret" not in str(server.environment)


@pytest.mark.engine
@pytest.mark.parametrize("path", ["invocations", "tokenize", "detokenize", "docs", "openapi.json", "load",
    "version", "v1/models", "server_info", "no/such/path"])  # fmt: skip
def test_every_path_wants_the_key(server, path):
    for method in ("GET", "POST"):
        url, body = f"{server.client.url}/{path}", {"model": "tiny", "prompt": "hi"}
        assert httpx.request(method, url, json=body, trust_env=False, timeout=60).status_code == 401
        good = {"Authorization": "Bearer session-secret"}
        reply = httpx.request(method, url, json=body, headers=good, trust_env=False, timeout=60)
        assert reply.status_code != 401


@pytest.mark.engine
def test_health_and_opened_counters_want_no_key(server):
    """That they do otherwise is asked in test_termination.py."""
    assert httpx.get(f"{server.client.url}/health", trust_env=False).status_code == 200
    assert "vllm:" in httpx.get(f"{server.client.url}/metrics", trust_env=False).text


@pytest.mark.engine
def test_a_paused_vllm_stands_still_and_wakes(server):
    server.pause()
    before = cpu_seconds(server.pids())
    time.sleep(0.5)
    assert {psutil.Process(pid).status() for pid in server.pids()} == {psutil.STATUS_STOPPED}
    assert cpu_seconds(server.pids()) == before
    server.resume()
    assert ask(server, "session-secret").status_code == 200


def slow_to_start(echo: Target) -> Target:
    return echo.model_copy(update={"extra_args": ("slowly",)})


def serve_and_fail(server: Server) -> list[int]:
    """Start a server, fail inside its `with` block; returns the processes it had."""
    pids = []
    try:
        with server:
            pids = server.pids()
            raise ZeroDivisionError
    except ZeroDivisionError:
        return pids


def test_it_starts_again_on_the_same_port(echo, tmp_path):
    first = Server(echo, log_dir=tmp_path)
    pids = serve_and_fail(first)
    assert len(pids) >= 2
    assert left(pids, 0) == []
    assert not first.is_alive()
    with Server(echo, port=first.port, log_dir=tmp_path) as second:
        assert ask(second, None).status_code == 200


@pytest.mark.engine
def test_crash_is_told_with_the_engines_own_words(target, tmp_path):
    """Those of a flag that it does not know, test_telemetry.py reads."""
    bad = target.model_copy(update={"max_model_len": 100_000})
    with pytest.raises(EngineError, match=r"exited with code 1: .*max_model_len"):
        Server(bad, log_dir=tmp_path).__enter__()


def test_timeout_is_not_called_a_crash(echo, tmp_path):
    slow = Server(slow_to_start(echo), ready_timeout_s=1, log_dir=tmp_path)
    with pytest.raises(EngineError, match="alive but not ready after 1 s"):
        slow.__enter__()
    assert not slow.is_alive()


def test_taken_port_is_named(echo, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} .* is taken"):
            Server(echo, port=port, log_dir=tmp_path).__enter__()


def test_half_written_weights_start_nothing(tmp_path):
    folder = make_model(tmp_path / "half")
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 100)
    server = Server(Target(name="half", model=str(folder), max_model_len=64), log_dir=tmp_path)
    with pytest.raises(ConfigError, match="half-written"):
        server.__enter__()
    assert server.pids() == []


START_AND_WAIT = """
import sys, time
from pathlib import Path
from specbook import engine
from specbook.engine.server import Server
from specbook.config.schema import Target
engine.__path__.append({engines!r})
engine.import_all()
server = Server(Target.model_validate_json({target!r}), log_dir=Path("."))
{before}
with server:
    print(*server.pids(), flush=True)
    time.sleep(600)
"""


TELL_EARLY = """
import threading
def tell():
    while len(server.pids()) < 2:
        time.sleep(0.05)
    print(*server.pids(), flush=True)
threading.Thread(target=tell, daemon=True).start()
"""
"""As soon as the engine has started a process of its own, long before it is ready."""


def start_and_wait(script, target: Target, before: str = ""):
    """Another process with a server, and that server's own."""
    told = {"target": target.model_dump_json(), "engines": engine.__path__[-1], "before": before}
    parent = script(START_AND_WAIT.format(**told))
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) >= 2
    assert all(runs(pid) for pid in pids)
    return parent, pids


def cpu_seconds(pids: list[int]) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def test_a_paused_server_uses_no_time(echo, tmp_path):
    with Server(echo, log_dir=tmp_path) as server:
        ask(server, None)
        server.pause()
        before = cpu_seconds(server.pids())
        time.sleep(1)
        assert cpu_seconds(server.pids()) == before
        for _ in range(2):
            server.resume()
            assert server.counters().server.requests_finished == 1
        assert ask(server, None).status_code == 200
        server.pause()
        pids = server.pids()
    assert left(pids, 0) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_killed(script, echo, how):
    parent, pids = start_and_wait(script, echo)
    parent.send_signal(how)
    if how == signal.SIGINT:
        time.sleep(0.05)
        parent.send_signal(how)  # the impatient second Ctrl-C
    assert left(pids) == []


def test_a_parent_killed_while_starting_leaves_nothing(script, echo):
    parent, pids = start_and_wait(script, slow_to_start(echo), TELL_EARLY)
    parent.kill()
    assert left(pids) == []
