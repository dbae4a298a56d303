"""Records for other tools: a table with a row each, and llm-d's benchmark reports, version 0.2.

Source: docs/benchmark_report.md of github.com/llm-d/llm-d-benchmark.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from specbook import paths
from specbook.analysis import acceptance, summaries
from specbook.errors import ConfigError
from specbook.records.atomic_files import write_atomically
from specbook.records.run import RunRecord, Throughput, identity
from specbook.records.run_set import RunSet
from specbook.records.selection import Selection, facts
from specbook.stats.percentiles import enough_for

QUANTILES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
SPEEDS = ["restart", "round", "mean_concurrency", "output_tokens_per_s", "decode_tokens_per_s", "step_s"]


def write(chosen: Selection, out: Path) -> int:
    """Export records to a .csv or .parquet file, a row each, or to a folder, a report each; returns how many.

    Raises:
        ConfigError: if the file has another ending, or no record is chosen.
    """
    runs = chosen.runs()
    with paths.results_of(chosen.folder):
        if out.suffix not in ("", ".csv", ".parquet"):
            raise ConfigError(
                f"{out}: no form {out.suffix!r}. To fix: .csv, .parquet, or a folder for reports"
            )
        if out.suffix:
            rows = table(runs)
            files = {out: rows.to_csv(index=False).encode() if out.suffix == ".csv" else rows.to_parquet()}
        else:
            files = {out / f"{run.run_id}.json": json.dumps(report(run), indent=1).encode() for run in runs}
    for path, data in files.items():
        write_atomically(path, data)
    return len(runs)


def table(runs: RunSet) -> pd.DataFrame:
    """A row per record: what it can be chosen by, what came of it (`summaries.throughput`), what it lacks."""
    rows = []
    for run in runs:
        got, counted = run.measurement.throughput, run.measurement.spec_decode
        drafted = counted.model_dump() | {"length": acceptance.length(counted)} if counted else {}
        came = got.model_dump(exclude={"output_tokens_per_s"})  # of the whole window
        rows.append(
            {"run_id": run.run_id, "kind": run.kind, "lacks": run.lacks} | facts(run) | came | drafted
        )
    return pd.concat([pd.DataFrame(rows), summaries.throughput(runs)[SPEEDS]], axis="columns")


def report(run: RunRecord) -> dict[str, Any]:
    """A record as a benchmark report. `observability`, which takes keys of one's own, has what was drafted.

    Gaps between chunks are left out: where it drafts they are no tokens'.
    """
    got, counted, load = run.measurement.throughput, run.measurement.spec_decode, run.point.load
    rows, versions = pd.DataFrame(summaries.arrays(run)), run.provenance.versions
    said = f"{run.point.target.name}, {run.title}, {run.point.traffic.domain}"
    return {
        "version": "0.2",
        "run": {
            "uid": run.run_id, "eid": run.round.id, "keywords": [run.kind, run.chapter],
            "description": f"{said}; imported, with {run.lacks}" if run.lacks else said,
            "time": {"start": run.started_at, "duration": f"PT{got.duration_s}S"},
        },
        "scenario": {
            "stack": [] if run.lacks else [_server(run)],
            "load": {
                "metadata": {}, "native": {"args": {"argv": list(run.provenance.bench_command)}},
                "standardized": {
                    "tool": "guidellm" if "guidellm" in versions else "vllm-benchmark",
                    "tool_version": versions.get("guidellm") or _version(run), "source": "unknown",
                    "input_seq_len": {"distribution": "other", "value": float(rows["input_tokens"].mean())},
                    "concurrency": load.concurrency, "rate_qps": load.request_rate_per_s,
                },
            },
        },
        "results": {
            "request_performance": {"aggregate": _performance(got, rows)},
            "observability": {"spec_decode": counted.model_dump(mode="json")} if counted else None,
        },
    }  # fmt: skip


def _performance(got: Throughput, rows: pd.DataFrame) -> dict[str, Any]:
    """Requests, latencies and rates of a window, from its figures and its answered requests."""
    tokens = {name: rows[f"{name}_tokens"] for name in ("input", "output")}
    sums = {f"{name}_token_rate": own.sum() for name, own in tokens.items()}
    sums |= {"total_token_rate": sum(sums.values()), "request_rate": got.completed}
    latency = {
        "time_to_first_token": rows["ttft_s"], "request_latency": rows["e2e_s"],
        "time_per_output_token": rows["tpot_s"],
        "normalized_time_per_output_token": rows["e2e_s"] / tokens["output"],
    }  # fmt: skip
    prompts = rows["prompt_id"].nunique()
    return {
        "requests": {"total": got.completed + got.failed, "failures": got.failed}
        | {f"{name}_length": _statistics(own, "count", prompts) for name, own in tokens.items()},
        "latency": {
            name: _statistics(own, "s/token" if "_per_" in name else "s", prompts)
            for name, own in latency.items()
        },
        "throughput": {
            name: {"units": units, "mean": float(n / got.duration_s)}
            for name, n in sums.items()
            for units in ["tokens/s" if "token" in name else "queries/s"]
        },
    }  # fmt: skip


def _server(run: RunRecord) -> dict[str, Any]:
    target, origin, machine = run.point.target, run.provenance, run.hardware
    return {
        "metadata": {"label": "server", "cfg_id": identity(run.point, origin)},
        "native": {"args": {"argv": list(origin.server_command)}, "envars": origin.server_env},
        "standardized": {
            "kind": "inference_engine", "tool": target.engine, "tool_version": _version(run),
            "role": "replica", "replicas": 1, "model": {"name": target.name},
            "accelerator": {
                "model": machine.gpu_name or machine.cpu_model or machine.id, "count": machine.gpu_count or 1,
                "parallelism": {"tp": target.tensor_parallel_size},
            },
        },
    }  # fmt: skip


def _version(run: RunRecord) -> str:
    return facts(run)["engine"].partition(", ")[0].rpartition(" ")[2] or "unknown"


def _statistics(values: pd.Series, units: str, prompts: int) -> dict[str, Any] | None:
    """None without a value; no percentile of too few prompts (`enough_for`)."""
    if not len(known := values.dropna().to_numpy(float)):
        return None
    ends = {"mean": known.mean(), "stddev": known.std(), "min": known.min(), "max": known.max()}
    shares = {f"p{100 * q:g}".replace(".", "p"): q for q in QUANTILES if enough_for(q, prompts)}
    ends |= {name: np.quantile(known, q) for name, q in shares.items()}
    return {"units": units} | {name: float(value) for name, value in ends.items()}
