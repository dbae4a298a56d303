"""One point: warm up, open the window, load the server, close the window, check the books -> RunRecord.

The books of a window are what load generator and server each counted; a window whose books do not balance, or
whose slots were not full, is a failed record.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from specbook import engine, paths, records
from specbook.bench import loadgen, provenance, stall, utilisation
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Load, Point
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError, HangError
from specbook.records.run import (
    REQUEST_COLUMNS,
    Hardware,
    Measurement,
    Provenance,
    Round,
    RunRecord,
    ServerCounters,
    SpecDecodeCounters,
    Throughput,
    Utilisation,
)
from specbook.stats import windows

ALONE = Round(id="alone")
"""Round of a point that was measured beside no other."""
TIMEOUT_S = 3600
"""Of a window, and of its warm-up."""


@dataclass(frozen=True)
class Window:
    """Everything that was seen between opening and closing the measured window."""

    result: dict[str, Any]
    """The load generator's."""
    server: ServerCounters | None
    """None where another tool opened it."""
    spec_decode: SpecDecodeCounters | None
    utilisation: Utilisation


def measure(server: Server, point: Point, *, hardware: Hardware, together: Round = ALONE) -> RunRecord:
    """Measure one point on a running server.

    The per-request rows are on disk when this returns; the record is the caller's to `records.append`, which
    commits it. A point that went wrong is a record too: its status is `failed` and it has a reason. A server
    that hangs is ended.

    Raises:
        ConfigError: if the point's prompts cannot be read, or the server runs another configuration.
    """
    if (server.target, server.speculation) != point.arm:
        raise ConfigError(
            f"the server runs another configuration than point {point.key} ({point.arm}): start its own"
        )
    head, load = _head(point, hardware, together), point.load
    chosen, warmup = loadgen.measured_and_warmup(point.traffic, load.num_requests, load.num_warmups)
    with loadgen.scratch() as folder:
        job = loadgen.arguments(folder / "window", point, server.client.url, len(chosen))
        origin = _provenance(point, server, [arg.replace(str(folder), "build/bench") for arg in job])
        try:
            window = _observe(server, point, folder, warmup, chosen)
            table = rows(window.result, [prompt.id for prompt in chosen])
            stood = stall.stalled(window.result, load)
            if problem := stood or disagreement(window, point) or not_full(table, load):
                raise EngineError(problem)
        except EngineError as error:
            reason = paths.portable(server.diagnosis(error))
            if isinstance(error, HangError):
                server.stop()  # it would hang on the next point too
            return RunRecord(**head, provenance=origin, status="failed", reason=reason, measurement=None)
    got = measurement(head["run_id"], point, hardware.id, window, table)
    return RunRecord(**head, provenance=origin, status="ok", reason=None, measurement=got)


def measurement(
    run_id: str, point: Point, hardware_id: str, window: Window, table: pd.DataFrame
) -> Measurement:
    """What a window gave; its per-request rows are on disk when this returns."""
    path = records.folder(hardware_id, point.chapter) / f"{run_id}.parquet"
    return Measurement(
        throughput=throughput(window.result), server=window.server, spec_decode=window.spec_decode,
        utilisation=window.utilisation, requests_file=path.name,
        requests_sha256=records.write_requests(path, table),
        late_first_chunks=int(windows.late_first_chunks(table).sum()), **steady_figures(table, point.load),
    )  # fmt: skip


def failed(point: Point, reason: str, *, hardware: Hardware, together: Round = ALONE) -> RunRecord:
    """The record of a point that could not be measured: its server crashed, or never became ready."""
    head, origin = _head(point, hardware, together), _provenance(point, None, [])
    return RunRecord(**head, provenance=origin, status="failed", reason=reason, measurement=None)


def _head(point: Point, hardware: Hardware, together: Round) -> dict[str, Any]:
    """What a record says however its point went; chance in the id keeps two machines apart."""
    now = datetime.now(UTC)
    return {
        "run_id": f"{now:%Y%m%dT%H%M%SZ}-{point.key[-16:-8]}-{secrets.token_hex(2)}", "key": point.key,
        "round": together, "kind": "measured", "started_at": now.isoformat(timespec="seconds"),
        "point": point, "hardware": hardware,
    }  # fmt: skip


def _provenance(point: Point, server: Server | None, bench: list[str]) -> Provenance:
    line = server.command if server else engine.for_target(point.target).command(*point.arm, port=0)
    ran = {"server_command": line, "bench_command": bench}
    origin = provenance.today(*point.arm, point.traffic)
    return origin.model_copy(update={name: tuple(map(paths.portable, args)) for name, args in ran.items()})


def _observe(
    server: Server, point: Point, folder: Path, warmup: list[Prompt], prompts: list[Prompt]
) -> Window:
    def load(name: str, sent: list[Prompt]) -> dict[str, Any]:
        return loadgen.send(
            folder / name, point, sent, server.client.url,
            api_key=server.api_key, timeout_s=TIMEOUT_S, watch=stall.Watch(server, point.load),
        )  # fmt: skip

    loadgen.shared().wait_ready()
    started = server.counters()
    if warmup:
        load("warmup", warmup)
    # The last warm-up may be counted after its answer: in the window it would unbalance the books.
    before = counters.settled(server.counters, started, len(warmup))
    gpus = point.target.tensor_parallel_size
    with utilisation.Sampler(server.pids, loadgen.shared().pid, gpus) as sampler:
        result = load("window", prompts)
    raise_if_requests_failed(result)
    after = counters.settled(server.counters, before, result["completed"])
    counted = counters.delta(before, after)
    return Window(result, counted.server, counted.spec_decode, sampler.result())


def raise_if_requests_failed(result: dict[str, Any]) -> None:
    """Raise EngineError, quoting the first failure, if a request was not answered."""
    if result["failed"]:
        sent, why = len(result["errors"]), loadgen.first_error(result)
        raise EngineError(f"{result['failed']} of {sent} requests failed: {why}")


def disagreement(window: Window, point: Point) -> str | None:
    """The first pair of figures on which the server's counters and the load generator differ."""
    result, drafted, finished = window.result, window.spec_decode, window.server.requests_finished
    if finished is None:
        finished = result["completed"]
    pairs = {
        "requests": (finished, result["completed"]),
        "planned requests": (finished, point.load.num_requests),
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


def rows(result: dict[str, Any], prompt_ids: Sequence[str], opening: int = 1) -> pd.DataFrame:
    """One row per request, columns `REQUEST_COLUMNS`; request i sent the i-th prompt.

    `opening`: 1 for chat, whose streams vLLM opens with an empty chunk that names the role: the gap after it
    is no step. Else 0.
    """
    start = min(result["start_times"])
    columns = {
        "prompt_id": prompt_ids,
        "start_s": [t - start for t in result["start_times"]],
        "ttft_s": result["ttfts"],
        "itl_s": [gaps[opening:] for gaps in result["itls"]],
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


def steady_figures(table: pd.DataFrame, load: Load) -> dict[str, float]:
    """Fields of a `Measurement` about the steady window; none where there is none, or too few requests."""
    enough = load.num_requests >= load.fewest_requests
    span = windows.steady(table, load.concurrency) if load.concurrency and enough else None
    if span is None:
        return {}
    return {
        "steady_s": span.seconds, "mean_concurrency": windows.mean_concurrency(table, span),
        "steady_output_tokens_per_s": windows.output_tokens_per_s(table, span),
    }  # fmt: skip


def not_full(table: pd.DataFrame, load: Load) -> str | None:
    """Why a closed loop's window is not of its concurrency; None where it is, or had too few requests."""
    slots = load.concurrency or 1
    if slots == 1 or load.num_requests < load.fewest_requests:
        return None
    mean = steady_figures(table, load).get("mean_concurrency")
    if mean is None:
        return (
            f"the first of {slots} slots outlasted all other requests: the window is shorter than an answer. "
            f"To fix: raise num_requests to {2 * load.num_requests}"
        )
    if mean >= windows.FULL * slots:
        return None
    return (
        f"{mean:.1f} of {slots} requests were in flight on average once the first wave had ended: this is no "
        f"batch of {slots}. To fix: leave the load generator more of the processor, or lower concurrency"
    )
