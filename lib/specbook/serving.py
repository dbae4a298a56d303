"""How a server behaves under load: records -> tables of step times, Poisson arrivals and utilisation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from specbook import config, records, roofline, stats, summaries
from specbook.config import Target
from specbook.errors import ConfigError
from specbook.records import RunRecord
from specbook.roofline import ModelShape

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def closed(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """The closed-loop records: those with a batch."""
    return [run for run in runs if run.point.load.concurrency is not None]


def opened(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """The Poisson records: those with a rate of arrivals."""
    return [run for run in runs if run.point.load.request_rate_per_s is not None]


def poisson(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per arm, rate and domain of the Poisson records, restarts pooled.

    Columns: arm, domain, rate_per_s (asked for), arrived_per_s and served_per_s (what came and what left,
        each counted from its first to its last: the wait for the last answers belongs to neither),
        queue_wait_s (mean), and e2e_p50_s, e2e_p99_s, with p99_enough (whether the samples suffice).
    """
    groups: dict[tuple, list[RunRecord]] = {}
    for run in opened(summaries.latest(runs)):
        key = (run.point.arm, run.point.traffic.domain, run.point.load.request_rate_per_s)
        groups.setdefault(key, []).append(run)
    return pd.DataFrame([_arrivals(key, group) for key, group in groups.items()])


def _arrivals(key: tuple, group: list[RunRecord]) -> dict[str, Any]:
    got = [run.measurement for run in group if run.measurement is not None]
    requests = [records.requests(run) for run in group]
    finished = sum(one.server.requests_finished for one in got)
    e2e = pd.concat([rows["e2e_s"] for rows in requests])
    p99 = stats.quantile(e2e, 0.99)
    return {
        "arm": key[0], "domain": key[1], "rate_per_s": key[2],
        "arrived_per_s": _pace([rows["start_s"] for rows in requests]),
        "served_per_s": _pace([rows["start_s"] + rows["e2e_s"] for rows in requests]),
        "queue_wait_s": sum(one.server.queue_time_s for one in got) / max(finished, 1),
        "e2e_p50_s": stats.quantile(e2e, 0.5).value, "e2e_p99_s": p99.value, "p99_enough": p99.enough,
    }  # fmt: skip


def _pace(windows: list[pd.Series]) -> float:
    """Events per second, from the first to the last of each window."""
    return sum(len(times) - 1 for times in windows) / sum(times.max() - times.min() for times in windows)


def saturation(table: pd.DataFrame, share: float = 0.1) -> pd.DataFrame:
    """Of `poisson`: per arm and domain the highest rate served without a queue; NaN if none was.

    Without: the mean wait in the queue is at most `share` of the median E2E. What was served per second says
    it less well: in a window of seconds one long last answer looks like a server that falls behind.
    """
    kept = table["queue_wait_s"] <= share * table["e2e_p50_s"]
    kept = table.assign(held_per_s=table["rate_per_s"].where(kept))
    return kept.groupby(["arm", "domain"], sort=False)["held_per_s"].max().reset_index()


def utilisation(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per closed-loop record: arm, concurrency, domain, busy cores of `cores`, memory, GPU share."""
    rows = []
    for run in closed(summaries.latest(runs)):
        assert run.measurement is not None
        point, used = run.point, run.measurement.utilisation.model_dump(exclude={"samples"})
        names = {"arm": point.arm, "concurrency": point.load.concurrency, "domain": point.traffic.domain}
        rows.append({**names, "cores": run.hardware.logical_cores, **used})
    return pd.DataFrame(rows)


def shape(target: Target) -> ModelShape | None:
    """The target's sizes; None where its config.json is not on this machine, or not of a known kind."""
    try:
        return ModelShape.from_config(Path(config.resolve_model(target.model)))
    except ConfigError:
        return None


def steps(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per baseline arm and batch: the measured decode step beside the least it could take.

    Without speculation each step gives a sequence one token, so the median TPOT is the step. Columns:
    arm, concurrency, step_s, memory_s, compute_s, least_s, overhead_s, bound (None where a peak is unknown).
    """
    base = [run for run in closed(summaries.latest(runs)) if run.point.speculation is None]
    pooled, rows = summaries.pooled_requests(base), []
    for (arm, batch), group in pooled.groupby(["arm", "concurrency"], sort=False):
        run = next(r for r in base if r.point.arm == arm)
        context = round((group["input_tokens"] + group["output_tokens"] / 2).median())
        step_s = float(group["tpot_s"].median())
        rows.append(
            {
                "arm": arm,
                "concurrency": int(batch),
                "step_s": step_s,
                **_least(run, int(batch), context, step_s),
            }
        )
    return pd.DataFrame(rows)


def _least(run: RunRecord, batch: int, context: int, step_s: float) -> dict[str, Any]:
    sizes, machine = shape(run.point.target), run.hardware
    dtype_bytes = DTYPE_BYTES.get(run.point.target.dtype)
    if sizes is None or dtype_bytes is None:
        return dict.fromkeys(("memory_s", "compute_s", "least_s", "overhead_s", "bound"))
    cost = roofline.decode_step(
        sizes, batch, context, dtype_bytes, machine.peak_bytes_per_s, machine.peak_flops_per_s
    )
    return {
        "memory_s": cost.memory_s, "compute_s": cost.compute_s, "least_s": cost.least_s,
        "overhead_s": cost.overhead_s(step_s), "bound": cost.bound,
    }  # fmt: skip
