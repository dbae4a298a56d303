"""The books of one measured window: what load generator and server each counted, and whether they agree."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from specbook import engine
from specbook.errors import EngineError
from specbook.measure.prompts import Prompt
from specbook.plan.schema import Point
from specbook.records.run import REQUEST_COLUMNS, ServerCounters, SpecDecodeCounters, Throughput, Utilisation


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
