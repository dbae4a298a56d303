"""One question to a running server: stream the answer, then say what it took by its own counters."""

import math
import time
from collections.abc import Callable

from specbook import engine
from specbook.analysis import acceptance
from specbook.config.machines import Profile
from specbook.config.schema import Frozen
from specbook.engine import counters
from specbook.engine.client import Running
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError
from specbook.records.run import SpecDecodeCounters
from specbook.stats.cost import usd_per_million_tokens

SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Reply(Frozen):
    """What one streamed answer took."""

    ttft_s: float
    e2e_s: float
    output_tokens: int
    spec_decode: SpecDecodeCounters | None
    """The server's counters over this request; None without speculation, or if it does not show them."""
    counted: bool = True
    """Whether the server shows its counters."""
    beside: int = 0
    """Requests of others that ended meanwhile: they are in the counters too."""


def ask(server: Server | Running, question: str, max_tokens: int, write: Callable[[str], None]) -> Reply:
    """Stream one greedy answer, each piece to `write`.

    Raises:
        EngineError: if the server refuses the question, or stops in the middle.
    """
    server.client.prepare()
    before = server.counters()
    started = time.perf_counter()
    first: float | None = None
    output_tokens = 0
    for piece in server.client.stream(question, max_tokens):
        text = piece.choices[0].delta.content if piece.choices else None
        if text:
            first = first or time.perf_counter()
            write(text)
        if piece.usage:
            output_tokens = piece.usage.completion_tokens
    ended = time.perf_counter()
    if not output_tokens:
        raise EngineError(f"{server.client.base_url} ended its answer before it said how long it was")
    took = {"ttft_s": (first or ended) - started, "e2e_s": ended - started, "output_tokens": output_tokens}
    if before is None:
        return Reply(**took, spec_decode=None, counted=False)
    counted = counters.delta(before, counters.settled(server.counters, before, finished=1))
    beside = max(0, counted.server.requests_finished - 1)
    return Reply(**took, spec_decode=counted.spec_decode, beside=beside)


def own_price(usd_per_hour: float | None) -> tuple[float | None, str]:
    """The asker's price of an hour and its name.

    Raises:
        ConfigError: if it is not a positive number.
    """
    if usd_per_hour is not None and not 0 < usd_per_hour < math.inf:
        raise ConfigError(f"--usd-per-hour {usd_per_hour}: give a positive price")
    return usd_per_hour, f"${usd_per_hour}/h"


def served(profile: Profile) -> str:
    """What serves a profile: engine, model, precision, method."""
    by = engine.of(profile.target)
    dtype = SHORT.get(profile.target.dtype, profile.target.dtype)
    method = profile.speculation.label if profile.speculation else "no speculation"
    return f"{by.title} {by.build().version}, {profile.target.name} {dtype}, {method}"


def summary(served_by: str, reply: Reply, usd_per_hour: float | None, price_name: str) -> list[str]:
    """Four lines: what served, how it decoded, how long it took, what a million tokens cost at that speed."""
    return [
        f"[serve] {served_by}",
        f"[decode] {_decode(reply)}",
        f"[latency] first-token {reply.ttft_s * 1000:.0f} ms, full response {reply.e2e_s * 1000:.0f} ms "
        f"({reply.output_tokens} tokens)",
        f"[cost] {_cost(reply, usd_per_hour, price_name)}",
    ]


def _decode(reply: Reply) -> str:
    drafted = reply.spec_decode
    if not reply.counted:
        return "unknown: the server does not show its counters"
    if drafted is None or drafted.num_drafts == 0:
        return "bs=1, nothing drafted, one token per step"
    who = f"of {reply.beside + 1} requests, those of others too" if reply.beside else "bs=1"
    return (
        f"{who}, acceptance_length={acceptance.length(drafted):.1f} (bonus token included), "
        f"acceptance_rate={acceptance.rate(drafted):.2f}"
    )


def _cost(reply: Reply, usd_per_hour: float | None, price_name: str) -> str:
    if usd_per_hour is None:
        return "no price for this machine: give --usd-per-hour"
    dollars = usd_per_million_tokens(reply.output_tokens / reply.e2e_s, usd_per_hour)
    return f"${dollars:.2f} per 1M output tokens at {price_name}, one request at a time"
