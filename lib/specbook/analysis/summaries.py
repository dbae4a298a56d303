"""Records -> tidy tables: requests, speeds, concurrency, loops. Nothing is measured or drawn here."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from specbook import records
from specbook.errors import RecordError
from specbook.records.run import RunRecord, setup
from specbook.records.run_set import RunSet, once, once_a_run
from specbook.stats import ratios, windows

NAMES = ["hardware", "kind", "target", "dtype", "load", "domain"]
CELL = [*NAMES, "setup"]
"""What must be equal for two arms to be compared. `setup` is the digest of all that has no column: the rest
of the target (its execution aside), of the traffic and the load, the engine's build, the target's weights
and the prompts.
"""
Speed = Literal["output_tokens_per_s", "decode_tokens_per_s", "decode_tokens_per_s_without_loops"]
CONCURRENCY = (*CELL, "arm", "restart", "asked", "mean", "share", "steady")
LOOPS = ("load", "domain", "requests", "prompts", "capped", "loops", "loop_tokens")
MEANS = ("domain", "arm", "concurrency", "value", "low", "high", "estimate", "records")


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A table of these rows; without any it still has these columns, so that what follows need not ask."""
    return pd.DataFrame(rows, columns=None if rows else list(columns))


def method(record: RunRecord) -> str:
    """The arm without its K and execution mode: `P-EAGLE`, or `baseline`."""
    drafted = record.point.speculation
    return drafted.drafting.title if drafted else "baseline"


def label(record: RunRecord) -> str:
    """The arm without its execution mode: `P-EAGLE K=5`, or `baseline`."""
    drafted = record.point.speculation
    return drafted.label if drafted else "baseline"


def _columns(record: RunRecord) -> dict[str, Any]:
    point = record.point
    return {
        "hardware": record.hardware.id, "kind": record.kind, "target": point.target.name,
        "dtype": point.target.dtype, "load": point.load.label, "domain": point.traffic.domain,
        "setup": setup(record),
        "concurrency": point.load.concurrency, "arm": str(point.arm), "method": method(record),
        "label": label(record),
        "num_speculative_tokens": getattr(point.speculation, "num_speculative_tokens", 0),
        "execution": point.target.execution, "restart": point.restart, "round": record.round.id,
        "run_id": record.run_id,
    }  # fmt: skip


@once_a_run
def arrays(record: RunRecord) -> dict[str, np.ndarray]:
    """The columns of requests that succeeded, with what `pooled_requests` adds to them.

    Each is an array: pandas takes milliseconds over a table, however small.
    """
    rows = {name: column.to_numpy() for name, column in records.requests(record).items()}
    tokens, ttft_s, e2e_s = (rows[name].astype(float) for name in ("output_tokens", "ttft_s", "e2e_s"))
    step_s, within = windows.step_s(rows["itl_s"]), _steady_span(record, rows)  # the same in each row
    rows |= {
        "late": windows.late_first_chunks(rows, step_s),
        "inside": np.full(len(tokens), True) if within is None else windows.arrived(rows, within),
        "loops": np.array([windows.repeats(text or "") for text in rows["text"]], dtype=bool),
        "capped": tokens >= record.point.traffic.max_tokens,
        "tpot_s": np.divide(e2e_s - ttft_s, tokens - 1, out=np.full(len(tokens), np.nan), where=tokens > 1),
        "step_s": np.full(len(tokens), step_s),
    }
    failed = np.array([isinstance(why, str) and why != "" for why in rows["error"]], dtype=bool)
    if failed.any():
        rows = _only(rows, ~failed)
        rows["step_s"][:] = windows.step_s(rows["itl_s"])
    return rows


def _only(rows: dict[str, np.ndarray], kept: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[kept] for name, column in rows.items()}


def first_tokens_s(record: RunRecord) -> np.ndarray:
    """[n] Seconds to the first token, of requests sent while every slot was taken whose first chunks were not
    late.
    """
    rows = arrays(record)
    return rows["ttft_s"][rows["inside"] & ~rows["late"]].astype(float)


def _steady_span(record: RunRecord, rows: windows.Rows) -> windows.Span | None:
    """None for Poisson arrivals, and for records from before steady windows."""
    has_window = record.measurement.steady_s is not None
    return windows.steady(rows, record.point.load.concurrency or 1) if has_window else None


@once
def pooled_requests(runs: RunSet) -> pd.DataFrame:
    """One row per successful request: CELL, arm, restart, run_id, REQUEST_COLUMNS, and

    - `tpot_s` = (E2E - TTFT) / (tokens - 1), s per token, NaN below two tokens;
    - `step_s`, the window's (see `stats.windows`);
    - `late` (see `stats.windows.late_first_chunks`);
    - `inside`: whether it was sent while every slot was taken (`stats.windows`). True in all rows of records
      from before such windows, and of Poisson arrivals;
    - `capped`: whether the output cap ended it; `loops`: whether it repeats itself (`stats.windows.repeats`).
    """
    if not runs:
        raise RecordError("there is no good record to summarise: measure the points first")
    parts, heads = [arrays(record) for record in runs], pd.DataFrame([_columns(one) for one in runs])
    of = np.repeat(np.arange(len(runs)), [len(rows["late"]) for rows in parts])
    rows = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    return pd.concat([rows, heads.iloc[of].reset_index(drop=True)], axis="columns")


@once
def throughput(runs: RunSet) -> pd.DataFrame:
    """One row per record: CELL, arm, restart, run_id, three speeds in tokens/s, `step_s`, and whose they are.

    `output_tokens_per_s` is over all sequences. `decode_tokens_per_s` is one sequence's, TTFT left out:
    sum(tokens - 1) / sum(E2E - TTFT) over its requests, without those whose first chunks came late. Both are
    of the steady window where the record has one, else of the whole window.

    `decode_tokens_per_s_without_loops` leaves out answers that loop (`stats.windows.repeats`). At batch 1
    that is the stream's speed without them. In a larger batch a window cannot drop them: it is the speed of
    the other requests, from their own clocks, while the looping ones took part in their steps.

    `step_s` is the median of the steps of its streams, in seconds; NaN where no answer has two chunks.
    `steady` is whether every slot was taken in that time: always at batch 1, never for Poisson arrivals, else
    where the record has a steady window. `mean_concurrency` is the requests in flight in that time.
    """
    return pd.DataFrame([_speeds(record) for record in runs])


def over_restarts(speeds: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean of output tokens/s over restarts, with its interval: a row per domain, arm and batch.

    Made from `throughput`. Columns: MEANS; records are the ids behind it. Poisson arrivals have no batch, and
    no row.
    """
    rows = []
    for key, own in speeds.groupby(["domain", "arm", "concurrency"]):
        mean = ratios.geometric_mean_ci(own["output_tokens_per_s"])
        rows.append((*key, mean.value, mean.low, mean.high, mean, tuple(own["run_id"])))
    return pd.DataFrame(rows, columns=list(MEANS))


def _speeds(record: RunRecord) -> dict[str, Any]:
    assert record.measurement is not None
    of_window = record.measurement.throughput.output_tokens_per_s
    full = record.measurement.steady_output_tokens_per_s
    return {
        **_columns(record),
        "output_tokens_per_s": of_window if full is None else full,
        **_decoding(record),
        "step_s": float(max(arrays(record)["step_s"], default=np.nan)),
        **_in_flight(record),
    }


@once_a_run
def _decoding(record: RunRecord) -> dict[str, float]:
    """Both decoding speeds of `throughput`."""
    rows = arrays(record)
    on_time, within = _only(rows, ~rows["late"]), _steady_span(record, rows)
    every = windows.decode_tokens_per_s(on_time, within) if within else _decode_tokens_per_s(on_time)
    without = _decode_tokens_per_s(_only(on_time, on_time["inside"] & ~on_time["loops"]))
    return {"decode_tokens_per_s": every, "decode_tokens_per_s_without_loops": without}


def _decode_tokens_per_s(rows: dict[str, np.ndarray]) -> float:
    tokens, ttft_s, e2e_s = (rows[name].astype(float) for name in ("output_tokens", "ttft_s", "e2e_s"))
    several = tokens > 1
    decoding_s = float((e2e_s - ttft_s)[several].sum())
    return float((tokens - 1)[several].sum()) / decoding_s if decoding_s > 0 else np.nan


def _in_flight(record: RunRecord) -> dict[str, Any]:
    assert record.measurement is not None
    mean = record.measurement.mean_concurrency
    full = mean is not None or record.point.load.concurrency == 1
    return {"steady": full, "mean_concurrency": _mean_in_flight(record) if mean is None else mean}


@once_a_run
def _mean_in_flight(record: RunRecord) -> float:
    rows = records.requests(record)
    return windows.mean_concurrency(rows, windows.whole(rows))


@once
def concurrency(runs: RunSet) -> pd.DataFrame:
    """Requests in flight in each closed loop: CELL, arm, restart, `asked`, `mean`, `share` and `steady`.

    `mean` is over the steady window, or over the whole window for records from before such windows.
    """
    rows = [_columns(run) | _in_flight(run) for run in runs if run.point.load.concurrency]
    table = frame(rows, CONCURRENCY).rename(columns={"concurrency": "asked", "mean_concurrency": "mean"})
    return table.assign(share=table["mean"] / table["asked"])[list(CONCURRENCY)]


@once
def loops(runs: RunSet) -> pd.DataFrame:
    """Answers that the output cap ended, and answers that repeat themselves, by load and domain.

    Columns: load, domain, `requests`, `prompts` (distinct), and shares from 0 to 1: `capped` and `loops` of
    the requests, `loop_tokens` of the output tokens. Every arm and restart counts.
    """
    asked = pooled_requests(runs)[["load", "domain", "prompt_id", "capped", "loops", "output_tokens"]]
    rows = [
        {"load": load, "domain": domain, "requests": len(own), "prompts": own["prompt_id"].nunique(),
         "capped": own["capped"].mean(), "loops": own["loops"].mean(),
         "loop_tokens": own.loc[own["loops"], "output_tokens"].sum() / own["output_tokens"].sum()}
        for (load, domain), own in asked.groupby(["load", "domain"], sort=False)
    ]  # fmt: skip
    return frame(rows, LOOPS)
