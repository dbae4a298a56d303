"""What the end of a server's processes does to an answer or a point under way, and that no process is left.

A kubelet ends a pod by SIGTERM to the server's first process, and the kernel sends it when our guard is
killed. Each test ends a server that others only ask, so this file comes last of theirs.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

import httpx
import psutil
import pytest
from processes import core, left

from specbook import records
from specbook.bench import measure_point
from specbook.engine.server import Server

pytestmark = pytest.mark.engine
TOKENS = 300
GAP_S = 20
"""Between two tokens: a server that cuts an answer leaves its client waiting, and waits for it to go."""


def ended_in_flight(server: Server, end: Callable[[], None]) -> list[str]:
    """The lines of one streamed answer; `end` is called after the first of them."""
    body = {
        "model": "tiny", "messages": [{"role": "user", "content": "count"}], "max_tokens": TOKENS,
        "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    url, headers = f"{server.client.base_url}/chat/completions", {"Authorization": f"Bearer {server.api_key}"}
    lines = []
    try:
        with httpx.stream("POST", url, json=body, headers=headers, timeout=GAP_S, trust_env=False) as answer:
            for line in filter(None, answer.iter_lines()):
                if not lines:
                    end()
                lines.append(line)
    except httpx.HTTPError as error:
        lines.append(f"cut off: {error}")
    return lines


def test_a_shutdown_timeout_lets_the_answer_finish(server):
    """As the manifests have it."""
    first, *_ = server.pids()
    lines = ended_in_flight(server, lambda: os.kill(first, signal.SIGTERM))
    server.stop()  # vLLM would take a quarter of a minute to end its worker
    assert lines[-1] == "data: [DONE]"
    assert f'"completion_tokens":{TOKENS}' in lines[-2]


def test_by_default_the_answer_is_cut_and_nothing_is_left(noisy):
    """The failing control of a drain: vLLM's --shutdown-timeout is 0 unless it is given."""
    assert "vllm:" in httpx.get(f"{noisy.client.url}/metrics", trust_env=False).text  # no key, none asked for
    pids = noisy.pids()
    guard = psutil.Process(pids[0]).ppid()
    lines = ended_in_flight(noisy, lambda: os.kill(guard, signal.SIGKILL))
    assert lines[0].startswith("data: {")
    assert f'"completion_tokens":{TOKENS}' not in "".join(lines)
    assert left(pids) == []
    assert not noisy.is_alive()


def test_an_engine_killed_on_the_way_fails_its_record(scratch, played, point, hardware):
    assert httpx.get(f"{played.client.url}/metrics", trust_env=False).status_code == 401
    assert played.counters().spec_decode
    long = point(played.speculation, concurrency=1, num_requests=300, max_tokens=200)
    threading.Timer(4, os.kill, (core(played).pid, signal.SIGKILL)).start()
    began = time.monotonic()
    record = measure_point.measure(
        played, long.model_copy(update={"target": played.target}), hardware=hardware
    )
    assert time.monotonic() - began < 60
    assert "vLLM" in record.reason
    assert records.read(records.append(record)).status == "failed"
