"""What a vLLM server shows of itself: its counters in `/metrics`, and its log."""

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from specbook.engine import counters
from specbook.engine.base import Counters, Pulse, log_lines
from specbook.errors import EngineError
from specbook.records.run import ServerCounters, SpecDecodeCounters

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
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
OLDER = {"vllm:prefix_cache_hits": "vllm:gpu_prefix_cache_hits"}
"""Name to the one before it (vLLM's pull request 18354)."""
OWN = r"(?:ray_)?vllm[:_]"
"""How only vLLM's metrics begin; Ray Serve puts a word before it, and exporters may change the colon."""
PROCESS = "process_start_time_seconds"
DECLARED = re.compile(r"^# TYPE (\S+) counter", re.MULTILINE)


def read(text: str, uncounted: Collection[str] = ()) -> Counters:
    """Parse Prometheus text, summed over engines and labels.

    Fields of `ServerCounters` in `uncounted` are 0 where the release does not count them.

    Raises:
        EngineError: if it lacks a counter that every vLLM server has.
    """
    totals = counters.totals(text, "vllm:")
    wanted = [name for field, name in SERVER.items() if field not in uncounted]
    if missing := [name for name in wanted if name not in totals]:
        raise EngineError(counters.lacking(text, missing[0], "vLLM", "0.32"))
    server = ServerCounters(**{field: totals[name] for field, name in SERVER.items()})
    if SPEC_DECODE["num_drafts"] not in totals:
        return Counters(server, None)
    drafted = {field: totals[name] for field, name in SPEC_DECODE.items()}
    positions = counters.by_position(text, PER_POSITION)
    per_pos = tuple(positions[i] for i in range(len(positions)))
    return Counters(server, SpecDecodeCounters(**drafted, num_accepted_tokens_per_pos=per_pos))


def page_counters(text: str, model: str) -> Counters | None:
    """What the page of a vLLM that others started tells of `model`, whatever its release; None if it is none.

    Older names count for today's. Counters that say nothing of speculation and are not there are 0.
    """
    processes = tuple(sorted(sample.value for sample in counters.samples(text, f"{PROCESS}\\b")))
    own = [sample._replace(name=_plain(sample.name)) for sample in counters.samples(text, OWN)]
    if not own:
        return None
    models = {sample.labels["model_name"] for sample in own if "model_name" in sample.labels}
    lacks = None
    if model in models:
        own = [sample for sample in own if sample.labels.get("model_name", model) == model]
    elif len(models) > 1:
        lacks = f"model {model!r}: they are of {', '.join(sorted(models))}"
    totals, positions = dict.fromkeys(map(_plain, DECLARED.findall(text)), 0.0), Counter[int]()
    for name, labels, value, *_ in own:
        totals[name] = totals.get(name, 0.0) + value
        if name == _plain(PER_POSITION) and labels.get("position", "").isdigit():
            positions[int(labels["position"])] += int(value)
    counted = {field: _total(totals, name) for field, name in SERVER.items()}
    needed = [SERVER["generation_tokens"], SERVER["requests_finished"]]
    drafting = [*SPEC_DECODE.values(), PER_POSITION]
    drafts = any(_plain(name) in totals for name in drafting)
    missing = [name for name in needed + drafting * drafts if _total(totals, name) is None]
    if missing:
        lacks = lacks or f"{missing[0]}, which a newer release of vLLM shows"
    server = ServerCounters(**{field: value or 0 for field, value in counted.items()})
    if lacks or not drafts:
        return Counters(server, None, lacks, processes)
    drafted = {field: totals[_plain(name)] for field, name in SPEC_DECODE.items()}
    per_pos = tuple(positions[i] for i in range(max(positions, default=-1) + 1))
    spec_decode = SpecDecodeCounters(**drafted, num_accepted_tokens_per_pos=per_pos)
    return Counters(server, spec_decode, None, processes)


def _plain(name: str) -> str:
    return re.sub(f"^{OWN}", "vllm:", name).removesuffix("_total")


def _total(totals: dict[str, float], name: str) -> float | None:
    plain = _plain(name)
    return totals.get(plain, totals.get(OLDER.get(plain, "")))


def pulse(text: str) -> Pulse:
    """The pulse in Prometheus text."""
    queued = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    return counters.pulse(text, "vllm:", queued, "vllm:request_prefill_time_seconds")


PREFIX = re.compile(
    r"^(\x1b\[[0-9;]*m)*(\([\w-]+ pid=\d+\) )?(\x1b\[[0-9;]*m)*"  # (EngineCore pid=123)
    r"((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]]*\] ?)?"  # ERROR 11-21 12:00:00 [core.py:1]
)
EXCEPTION = re.compile(r"^([\w.]*(Error|Exception|Refused)|[\w./-]+\.py: error): \S")
SECOND_HAND = re.compile(
    "Engine core initialization failed|See root cause above|WorkerProc initialization failed"
)
"""What the front end says when an engine process failed: the reason stands above."""


def last_words(path: Path) -> str:
    """The last error that a log names, with the line that explains it; failing that its last lines."""
    lines = [PREFIX.sub("", line).rstrip() for line in log_lines(path)]
    errors = [i for i, line in enumerate(lines) if EXCEPTION.match(line) and not SECOND_HAND.search(line)]
    if not errors:
        return "\n".join([line for line in lines if line.strip()][-3:]) or "(its log is empty)"
    first, *after = lines[errors[-1] : errors[-1] + 3]
    detail = [
        line.strip() for line in after if line.startswith(" ") and not line.lstrip().startswith("File ")
    ]
    return " ".join([first, *detail])[:600]
