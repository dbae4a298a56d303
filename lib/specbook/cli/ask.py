"""One question to a running server: stream the answer, then say what it took by its own counters."""

import time
from collections.abc import Callable
from typing import Any

from specbook import engine
from specbook.analysis import acceptance
from specbook.config.machines import Profile
from specbook.config.schema import Frozen
from specbook.engine import counters
from specbook.engine.base import Counters
from specbook.engine.running import Running
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.run import SpecDecodeCounters
from specbook.stats.cost import usd_per_million_tokens

UNSHOWN = "the server does not show its counters"
AT_ONCE = 8
"""Events that come in one read of the network where nothing streams; less is one step of a deep draft."""
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Reply(Frozen):
    """What one streamed answer took."""

    ttft_s: float
    """To its first token, be it of its reasoning."""
    e2e_s: float
    output_tokens: int | None
    """None where neither the answer nor the counters tell."""
    spec_decode: SpecDecodeCounters | None
    """The server's counters over this request; None without speculation, or if it does not show them."""
    counted: bool = True
    """Whether the server's counters tell of this answer."""
    unknown: str = UNSHOWN
    """Why they do not."""
    reasoning_s: float | None = None
    """To the first token after its reasoning; None where it has none, or nothing else."""
    streamed: bool = True
    """False where it came in one piece, whose first token says nothing."""
    beside: int = 0
    """Requests of others that ended meanwhile: they are in the counters too."""
    among_others: bool = False
    """Whether the counters have tokens of requests that had not ended."""


def ask(server: Server | Running, question: str, max_tokens: int, write: Callable[[str], None]) -> Reply:
    """Stream one greedy answer, each piece to `write`.

    Raises:
        EngineError: if the server refuses the question, or stops in the middle.
    """
    before = server.counters()
    stream = server.client.stream(question, max_tokens)
    first = answered = None
    reasoned, pieces = False, 0
    for piece in stream:
        if piece.has_token:
            now, pieces = time.perf_counter(), pieces + 1
            first = first or now
            answered = answered or (now if piece.text or piece.calls else None)
            if reasoned and not piece.reasoning:
                write("\n\n")
            write(piece.reasoning + piece.text + piece.calls)
            reasoned = bool(piece.reasoning)
    ended = time.perf_counter()
    read = stream.reader
    if read.output_tokens is None and read.finish_reason is None:
        raise EngineError(f"{server.client.base_url} ended its answer before it said how long it was")
    started = stream.sent_s
    took = {
        "ttft_s": (first or ended) - started, "e2e_s": ended - started,
        "reasoning_s": answered - started if first and answered and answered > first else None,
        "streamed": not read.in_one_piece and not (pieces >= AT_ONCE and stream.reads == 1),
    }  # fmt: skip
    return Reply(**took, **_counted(server, before, read.output_tokens))


def _counted(server: Server | Running, before: Counters | None, output_tokens: int | None) -> dict[str, Any]:
    """Fields of a `Reply` that the server's counters tell, now that the answer has come."""
    unknown = {"output_tokens": output_tokens, "spec_decode": None, "counted": False}
    if before is None:
        return unknown
    if before.lacks:
        return unknown | {"unknown": f"its counters lack {before.lacks}"}
    try:
        counted = counters.delta(before, counters.settled(server.counters, before, finished=1))
    except EngineError as error:
        return unknown | {"unknown": str(error)}
    if why := counters.not_of(counted, output_tokens):
        return unknown | {"unknown": why}
    beside, generated = (counted.server.requests_finished or 1) - 1, counted.server.generation_tokens
    if output_tokens is None and not beside:
        output_tokens = generated
    return {
        "output_tokens": output_tokens, "spec_decode": counted.spec_decode, "beside": beside,
        "among_others": not beside and output_tokens is not None and generated > output_tokens,
    }  # fmt: skip


def served(profile: Profile) -> str:
    """What serves a profile: engine, model, precision, method."""
    by = engine.for_target(profile.target)
    dtype = SHORT.get(profile.target.dtype, profile.target.dtype)
    method = profile.speculation.label if profile.speculation else "no speculation"
    return f"{by.title} {by.build().version}, {profile.target.name} {dtype}, {method}"


def summary(served_by: str, reply: Reply, usd_per_hour: float | None, price_name: str) -> list[str]:
    """Four lines: what served, how it decoded, how long it took, what a million tokens cost at that speed."""
    return [
        f"[serve] {served_by}",
        f"[decode] {_decode(reply)}",
        f"[latency] {_latency(reply)}",
        f"[cost] {_cost(reply, usd_per_hour, price_name)}",
    ]


def _latency(reply: Reply) -> str:
    first = f"first-token {reply.ttft_s * 1000:.0f} ms"
    if not reply.streamed:
        first = "first-token unknown, since the answer came in one piece (does a gateway hold it back?)"
    elif reply.reasoning_s is not None:
        first += f", first after its reasoning {reply.reasoning_s * 1000:.0f} ms"
    tokens = "the server did not say how many" if reply.output_tokens is None else reply.output_tokens
    return f"{first}, full response {reply.e2e_s * 1000:.0f} ms ({tokens} tokens)"


def _decode(reply: Reply) -> str:
    drafted = reply.spec_decode
    if not reply.counted:
        return f"unknown: {reply.unknown}"
    if drafted is None or drafted.num_drafts == 0:
        return "bs=1, nothing drafted, one token per step"
    who = f"of {reply.beside + 1} requests, those of others too" if reply.beside else "bs=1"
    if reply.among_others:
        who = "of this request, and of others that had not ended"
    return (
        f"{who}, acceptance_length={acceptance.length(drafted):.1f} (bonus token included), "
        f"acceptance_rate={acceptance.rate(drafted):.2f}"
    )


def _cost(reply: Reply, usd_per_hour: float | None, price_name: str) -> str:
    if usd_per_hour is None:
        return "no price for this machine: give --usd-per-hour"
    if reply.output_tokens is None:
        return "unknown: the server did not say how many tokens it gave"
    dollars = usd_per_million_tokens(reply.output_tokens / reply.e2e_s, usd_per_hour)
    return f"${dollars:.2f} per 1M output tokens at {price_name}, one request at a time"
