"""The books of one measured window: what load generator and server each counted, and whether they agree."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from specbook import engine
from specbook.bench.prompt_order import Prompt
from specbook.config.schema import Load, Point
from specbook.errors import EngineError
from specbook.records.run import (
    REQUEST_COLUMNS,
    ServerCounters,
    SpecDecodeCounters,
    Throughput,
    Utilisation,
)
from specbook.stats import steady


@dataclass(frozen=True)
class Window:
    """Everything that was seen between opening and closing the measured window."""

    result: dict[str, Any]
    server: ServerCounters
    spec_decode: SpecDecodeCounters | None
    utilisation: Utilisation


def raise_if_requests_failed(result: dict[str, Any]) -> None:
    """Raise EngineError, quoting the first failure, if a request was not answered."""
    if result["failed"]:
        first = next((error.strip() for error in result["errors"] if error), "no error given")
        raise EngineError(
            f"{result['failed']} of {len(result['errors'])} requests failed: {first.splitlines()[-1]}"
        )


def disagreement(window: Window, point: Point) -> str | None:
    """The first pair of figures on which the server's counters and the load generator differ."""
    result, drafted = window.result, window.spec_decode
    pairs = {
        "requests": (window.server.requests_finished, result["completed"]),
        "planned requests": (window.server.requests_finished, point.load.num_requests),
        "output tokens": (window.server.generation_tokens, result["total_output_tokens"]),
        "prompt tokens": (window.server.prompt_tokens, result["total_input_tokens"]),
    }
    if drafted is not None and engine.load_tool().reads_counters_of == point.target.engine:
        pairs["drafts"] = (drafted.num_drafts, result.get("spec_decode_num_drafts", 0))
        pairs["draft tokens"] = (drafted.num_draft_tokens, result.get("spec_decode_draft_tokens", 0))
        pairs["accepted tokens"] = (drafted.num_accepted_tokens, result.get("spec_decode_accepted_tokens", 0))
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            return f"counters disagree on {name}: the server's say {ours}, the load generator says {theirs}"
    return None


def rows(result: dict[str, Any], prompts: list[Prompt]) -> pd.DataFrame:
    """One row per request, columns `REQUEST_COLUMNS`; request i sent `prompts[i]`."""
    start = min(result["start_times"])
    columns = {
        "prompt_id": [prompt.id for prompt in prompts],
        "start_s": [t - start for t in result["start_times"]],
        "ttft_s": result["ttfts"],
        # vLLM opens a chat stream with an empty chunk that names the role: the gap after it is no step.
        "itl_s": [gaps[1:] for gaps in result["itls"]],
        "e2e_s": result["latencies"],
        "input_tokens": result["input_lens"],
        "output_tokens": result["output_lens"],
        "text": result["generated_texts"],
        "error": [error or None for error in result["errors"]],
    }
    return pd.DataFrame(columns, columns=list(REQUEST_COLUMNS))


def throughput(result: dict[str, Any]) -> Throughput:
    """The load generator's own figures for the window."""
    return Throughput(
        duration_s=result["duration"], completed=result["completed"], failed=result["failed"],
        output_tokens=result["total_output_tokens"], output_tokens_per_s=result["output_throughput"],
    )  # fmt: skip


def steady_figures(rows: pd.DataFrame, load: Load) -> dict[str, float]:
    """Fields of a `Measurement` about the steady window; none where there is none, or too few requests."""
    enough = load.num_requests >= load.fewest_requests
    found = steady.span(rows, load.concurrency) if load.concurrency and enough else None
    if found is None:
        return {}
    return {
        "steady_s": found.seconds, "mean_concurrency": steady.mean_concurrency(rows, found),
        "steady_output_tokens_per_s": steady.output_tokens_per_s(rows, found),
    }  # fmt: skip


def not_full(rows: pd.DataFrame, load: Load) -> str | None:
    """Why a closed loop's window is not of its concurrency; None where it is, or had too few requests."""
    slots = load.concurrency or 1
    if slots == 1 or load.num_requests < load.fewest_requests:
        return None
    mean = steady_figures(rows, load).get("mean_concurrency")
    if mean is None:
        return f"the first of {slots} slots outlasted all other requests. To fix: raise num_requests"
    if mean >= steady.FULL * slots:
        return None
    return (
        f"{mean:.1f} of {slots} requests were in flight on average once the first wave had ended: this is no "
        f"batch of {slots}. To fix: leave the load generator more of the processor, or lower concurrency"
    )
