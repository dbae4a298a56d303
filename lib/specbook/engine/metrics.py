"""vLLM's own counters: read from `/metrics`, and subtracted."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from specbook.errors import EngineError
from specbook.records import ServerCounters, SpecDecodeCounters

SERVER = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "requests_finished": "vllm:request_success_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "queue_time_s": "vllm:request_queue_time_seconds_sum",
}
SPEC_DECODE = {
    "num_drafts": "vllm:spec_decode_num_drafts_total",
    "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}
SETTLE_S = 5.0
"""The server counts a finished request a moment after its last byte left."""
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


@dataclass(frozen=True)
class Counters:
    """One reading of `/metrics`, summed over engines and labels."""

    totals: dict[str, float]
    accepted_per_pos: tuple[int, ...]


def snapshot(text: str) -> Counters:
    """Parse Prometheus text.

    Raises:
        EngineError: if it lacks a counter that every vLLM server has.
    """
    totals, positions = Counter[str](), Counter[int]()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            totals[sample.name] += sample.value
            if sample.name == PER_POSITION:
                positions[int(sample.labels["position"])] += int(sample.value)
    if missing := [name for name in SERVER.values() if name not in totals]:
        raise EngineError(f"/metrics has no {missing[0]}: this vLLM release is not one specbook knows (0.32)")
    return Counters(dict(totals), tuple(positions[i] for i in range(len(positions))))


def delta(before: Counters, after: Counters) -> tuple[ServerCounters, SpecDecodeCounters | None]:
    """What happened between two readings; the second is None on a server that does not draft.

    Raises:
        EngineError: if a counter went backwards: the server was restarted in between.
    """

    def grown(name: str) -> float:
        difference = after.totals[name] - before.totals.get(name, 0)
        if difference < 0:
            raise EngineError(
                f"{name} went from {before.totals[name]:g} to {after.totals[name]:g}: server restarted?"
            )
        return difference

    server = {field: grown(name) for field, name in SERVER.items()}
    whole = {field: value if field == "queue_time_s" else int(value) for field, value in server.items()}
    if SPEC_DECODE["num_drafts"] not in after.totals:
        return ServerCounters(**whole), None
    first = before.accepted_per_pos or (0,) * len(after.accepted_per_pos)
    per_pos = tuple(b - a for a, b in zip(first, after.accepted_per_pos, strict=True))
    drafted = {field: int(grown(name)) for field, name in SPEC_DECODE.items()}
    return ServerCounters(**whole), SpecDecodeCounters(**drafted, num_accepted_tokens_per_pos=per_pos)


def settled(
    read: Callable[[], str], before: Counters, finished: int
) -> tuple[ServerCounters, SpecDecodeCounters | None]:
    """`delta` to what `read` gives once `finished` requests are counted, or after `SETTLE_S`."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        counted = delta(before, snapshot(read()))
        if counted[0].requests_finished >= finished or time.monotonic() > deadline:
            return counted
        time.sleep(0.05)
