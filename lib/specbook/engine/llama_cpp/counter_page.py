"""What llama.cpp's server shows of itself: its `/metrics`, and its log.

Its counters move when a request ends, and are read in the same thread: a page is never late. They are printed
with six digits, so after a million tokens of one server they no longer agree with what its clients counted.
Source: llama.cpp b11549, tools/server/server-task.cpp (`server_task_result_metrics::to_metrics`).
"""

import re

from specbook.engine import prometheus
from specbook.engine.base import Counters, Pulse
from specbook.errors import EngineError
from specbook.records.run import ServerCounters, SpecDecodeCounters

OWN = "llamacpp:"
PROMPT, CACHED = "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"
GENERATED = "llamacpp:tokens_predicted_total"
SPEC_DECODE = {
    "num_drafts": "llamacpp:spec_decode_num_drafts_total",
    "num_draft_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
    "num_accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
}
PER_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
"""Absent until a request has drafted; K positions from then on."""
ERROR = re.compile(r"^[\d.]+ E (.*)")
"""`0.00.006 E srv    load_model: ...`."""


def page_counters(text: str) -> Counters | None:
    """What the page of a llama.cpp tells, whatever its release; None if it is no such page.

    It counts no requests and no time in the queue, and knows no preemption.
    """
    totals = prometheus.totals(text, OWN)
    if not totals:
        return None
    missing = next((name for name in (PROMPT, GENERATED, *SPEC_DECODE.values()) if name not in totals), None)
    server = ServerCounters(
        prompt_tokens=totals[PROMPT] + totals[CACHED], generation_tokens=totals[GENERATED],
        requests_finished=None, prefix_cache_hits=totals[CACHED], preemptions=0, queue_time_s=None,
    )  # fmt: skip
    if missing or not totals[SPEC_DECODE["num_drafts"]]:
        return Counters(server, None, missing and f"{missing}, which a newer release of llama.cpp shows")
    drafted = {field: totals[name] for field, name in SPEC_DECODE.items()}
    places = {int(one.labels["position"]): int(one.value) for one in prometheus.samples(text, PER_POSITION)}
    per_pos = tuple(places[i] for i in sorted(places))
    return Counters(server, SpecDecodeCounters(**drafted, num_accepted_tokens_per_pos=per_pos))


def read(text: str) -> Counters:
    """The same of the release that is known.

    Raises:
        EngineError: for a page of another engine, or without one of the counters.
    """
    found = page_counters(text)
    if found is None or found.lacks:
        missing = found.lacks.partition(",")[0] if found and found.lacks else PROMPT
        raise EngineError(prometheus.lacking(text, missing, "llama.cpp", "b11549"))
    return found


def pulse(text: str) -> Pulse:
    """The pulse: `n_decode_total` moves with each step; how long a prompt takes is not to be told."""
    figures = tuple(line for line in text.splitlines() if line.startswith(OWN))
    totals = prometheus.totals(text, "llamacpp:requests_")
    return Pulse(figures, sum(totals.values()), mean_prefill_s=0.0)
