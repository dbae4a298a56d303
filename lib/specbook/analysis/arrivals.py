"""Poisson arrivals: records -> rates, queue wait and latency, and the highest rate without a queue."""

from typing import Any

import pandas as pd

from specbook.analysis import latency, summaries
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet, once
from specbook.stats import percentiles
from specbook.stats.percentiles import Requests

COLUMNS = (
    "arm", "domain", "rate_per_s", "arrived_per_s", "served_per_s", "queue_wait_s",
    *(f"e2e_{p}_{end}" for p in ("p50", "p99") for end in ("s", "low_s", "high_s", "enough")),
)  # fmt: skip


@once
def poisson(runs: RunSet) -> pd.DataFrame:
    """One row per arm, rate and domain of the Poisson records.

    Columns: arm, domain, rate_per_s (asked for), arrived_per_s and served_per_s (what came and what left,
        each counted from its first to its last: the wait for the last answers belongs to neither),
        queue_wait_s (mean; NaN of an engine that does not tell), and of E2E p50 and p99 the value in seconds,
        its ends, and whether prompts are enough: e2e_p50_s, e2e_p50_low_s, e2e_p50_high_s, e2e_p50_enough,
        e2e_p50_estimate (the `Estimate`),
        and so on; and records (their ids).
    """
    groups: dict[tuple, list[RunRecord]] = {}
    for run in runs.poisson:
        key = (str(run.point.arm), run.point.traffic.domain, run.point.load.request_rate_per_s)
        groups.setdefault(key, []).append(run)
    return summaries.frame([_arrivals(key, group) for key, group in groups.items()], COLUMNS)


def _arrivals(key: tuple, group: list[RunRecord]) -> dict[str, Any]:
    got = [run.measurement for run in group if run.measurement is not None]
    waits, finished = [one.server.queue_time_s for one in got], sum(one.throughput.completed for one in got)
    answered = latency.answered(group)
    windows = [rows for _, rows in answered.groupby(["restart", "round"])]
    e2e = latency.requests(answered, "e2e_s")
    return {
        "arm": key[0], "domain": key[1], "rate_per_s": key[2],
        "arrived_per_s": _pace([rows["start_s"] for rows in windows]),
        "served_per_s": _pace([rows["start_s"] + rows["e2e_s"] for rows in windows]),
        "queue_wait_s": float("nan") if None in waits else sum(waits) / max(finished, 1),
        **_columns("e2e_p50", e2e, 0.5), **_columns("e2e_p99", e2e, 0.99),
        "records": tuple(run.run_id for run in group),
    }  # fmt: skip


def _columns(name: str, times_s: Requests, q: float) -> dict[str, Any]:
    estimate = percentiles.percentile(times_s, q)
    ends = {f"{name}_s": estimate.value, f"{name}_low_s": estimate.low, f"{name}_high_s": estimate.high}
    return {**ends, f"{name}_enough": percentiles.enough_for(q, estimate.n), f"{name}_estimate": estimate}


def _pace(windows: list[pd.Series]) -> float:
    """Events per second, from the first to the last of each window."""
    return sum(len(times) - 1 for times in windows) / sum(times.max() - times.min() for times in windows)


def saturation(table: pd.DataFrame) -> pd.DataFrame:
    """Highest rate of `poisson` that was served without a queue, per arm and domain; NaN if none was.

    Without: the mean wait in the queue is at most a tenth of the median E2E. What was served per second says
    it less well: in a window of seconds one long last answer looks like a server that falls behind.
    """
    no_queue = table["queue_wait_s"] <= 0.1 * table["e2e_p50_s"]
    served = table.assign(held_per_s=table["rate_per_s"].where(no_queue))
    return served.groupby(["arm", "domain"], sort=False)["held_per_s"].max().reset_index()
