"""Requests -> tables of latency percentiles, each restart's own, with n in distinct prompts; what speculation
does to the slowest requests; and of Poisson arrivals: rates, queue wait and latency, and the highest rate
without a queue.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from specbook.analysis import speedup, summaries
from specbook.analysis.summaries import CELL
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet, once
from specbook.stats import percentiles, ratios
from specbook.stats.estimate import Estimate
from specbook.stats.percentiles import Requests, enough_for

ARRIVALS = (
    "arm", "domain", "rate_per_s", "arrived_per_s", "served_per_s", "queue_wait_s",
    *(f"e2e_{p}_{end}" for p in ("p50", "p99") for end in ("s", "low_s", "high_s", "enough")),
)  # fmt: skip
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
METRICS = ("ttft_s", "tpot_s", "e2e_s")
"""Of changes; ITL is left out: a gap holds several tokens under speculation, one without."""
CHANGES = (
    *CELL, "arm", "method", "label", "baseline", "metric", "q", "arm_s", "baseline_s", "value", "low", "high",
    "n", "enough", "late", "estimate",
)  # fmt: skip
POOLED = "all domains"
"""What stands for the domain where all of them are pooled."""
WIDE = 3.0
"""Upper over lower end of an interval: beyond it, a latency is hardly known."""


def answered(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Rows of `summaries.pooled_requests` that are inside, with `prompt`: a number per domain and prompt, the
    same in every arm.

    The first wave of a closed loop waits for its own prefills: its TTFT is no steady load's.
    """
    table = summaries.pooled_requests(runs)
    table = table[table["inside"]]
    names = table["domain"].astype(str) + "/" + table["prompt_id"].astype(str)
    return table.assign(prompt=names.factorize()[0])


def requests(table: pd.DataFrame, metric: str) -> Requests:
    """A latency of `answered` in seconds, with its prompts and restarts; every gap counts for `itl_s`."""
    rows = table[table[metric].notna()]
    values, times = rows[metric], 1
    if metric == "itl_s":
        times = rows[metric].map(len).to_numpy()
        values = np.concatenate([np.asarray(gaps, dtype=float) for gaps in rows[metric]] or [[]])
    repeated = (np.repeat(rows[name], times) for name in ("prompt", "restart"))
    return Requests(np.asarray(values, dtype=float), *repeated)


def table(
    runs: Iterable[RunRecord], qs: tuple[float, ...] = (0.5, 0.99), by: tuple[str, ...] = (*CELL, "arm")
) -> pd.DataFrame:
    """Percentiles of TTFT, TPOT, ITL and E2E in seconds, see `percentiles.percentile`.

    Columns: `by`, metric, q, value, low, high, n (distinct prompts), enough (where False it is not to be
    quoted: mark it), late (first chunks, see `decided`), `estimate`, needed (see `restarts_needed`) and
    records (their ids). Leave "domain" and "setup" out of `by` to pool domains.
    """
    rows = []
    for key, group in answered(runs).groupby(list(by), sort=False):
        records = {"records": tuple(dict.fromkeys(group["run_id"]))}
        for metric in LATENCIES:
            times_s = requests(group, metric)
            for q in qs if len(times_s.values) else ():
                head = {**dict(zip(by, key, strict=True)), "metric": metric, "q": q}
                found = row(percentiles.percentile(times_s, q), metric, q, group)
                needed = {"needed": restarts_needed(found["estimate"], times_s, q)}
                rows.append(head | found | needed | records)
    return pd.DataFrame(rows)


def restarts_needed(estimate: Estimate, times_s: Requests, q: float) -> int | None:
    """Restarts like these whose interval would end WIDE apart; None where it is no wider, or there is none.

    0 where it is the prompts that are too few; more than `ratios.MOST_RESTARTS` where even those are.
    """
    if not estimate.low or estimate.high <= WIDE * estimate.low:
        return None
    own = percentiles.by_restart(times_s, q)
    spread = own.std(ddof=1) / own.mean()  # of the logarithm, as in the interval
    needed = ratios.restarts_for(1 - WIDE**-0.5, spread, True, wanted=0.5) or ratios.MOST_RESTARTS + 1
    return needed if needed > len(own) else 0


def decided(metric: str, q: float, *arms: pd.DataFrame) -> bool:
    """Whether late first chunks (`stats.windows.late_first_chunks`) make a percentile what it is.

    A late TTFT lies beyond the others. Where they are more than one in five of the requests beyond a
    percentile, in one of these arms, it tells of streams that stood still.
    """
    return metric == "ttft_s" and any(arm["late"].mean() > (1 - q) / 5 for arm in arms)


def row(estimate: Estimate, metric: str, q: float, *arms: pd.DataFrame) -> dict[str, object]:
    """An estimate of quantile `q` of these `answered` as columns of a table: see `table`."""
    if spoilt := decided(metric, q, *arms):
        estimate = estimate.model_copy(update={"low": None, "high": None, "method": "none"})
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    late = sum(int(arm["late"].sum()) for arm in arms)
    enough = enough_for(q, estimate.n) and not spoilt
    return {**ends, "n": estimate.n, "enough": enough, "late": late, "estimate": estimate}


def tails(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """`changes` of `speedup.best_over_domains`' arms: each domain, and POOLED where there are several."""
    runs = RunSet.of(runs)
    best = speedup.best_over_domains(runs)
    each = changes(runs, best)
    if each["domain"].nunique() < 2:
        return each
    return pd.concat([each, changes(runs, best, pooled=True).assign(domain=POOLED)], ignore_index=True)


def changes(
    runs: Iterable[RunRecord], chosen: pd.DataFrame | None = None, pooled: bool = False
) -> pd.DataFrame:
    """Each arm's percentiles minus the best baseline's, in seconds: the median beside p99.

    By domain, or `pooled` over all of them. Given `chosen`, a table with load and arm such as
    `speedup.best_k`'s, of these arms at these loads only.

    Columns: CHANGES, of which arm_s and baseline_s are both arms' own and those from value on `row`'s
    for the change; and records (their ids, the arm's first). No rows where no round has both.
    """
    runs = RunSet.of(runs)
    if chosen is not None:
        if chosen.empty:
            return summaries.frame([], CHANGES)
        arms = set(chosen[["load", "arm"]].itertuples(index=False, name=None))
        points = ((run, run.point) for run in runs)
        runs = RunSet(r for r, p in points if p.speculation is None or (p.load.label, str(p.arm)) in arms)
    asked, by = answered(runs), [name for name in CELL if not (pooled and name in ("domain", "setup"))]
    needed = {*CELL, "arm", "method", "label", "restart", "run_id", "prompt", "late", *METRICS}
    turns = asked.groupby(["domain", "restart", "round"]).ngroup()
    kept = asked[[name for name in asked if name in needed]].assign(turn=turns)
    cells, rows = dict(list(kept.groupby(by, sort=False))), []
    for key, cell in summaries.throughput(runs).groupby(by, sort=False):
        base, same = speedup.best_baseline(cell), cells.get(key, kept[:0])
        for arm, group in same[same["method"] != "baseline"].groupby("arm", sort=False) if base else ():
            names = {name: group[name].iloc[0] for name in ("method", "label")}
            head = {**dict(zip(by, key, strict=True)), "arm": arm, **names, "baseline": base}
            rows += [head | change for change in _changes(group, same[same["arm"] == base])]
    return summaries.frame(rows, CHANGES)


def _changes(arm: pd.DataFrame, base: pd.DataFrame) -> list[dict[str, object]]:
    pair = arm[arm["turn"].isin(base["turn"])], base[base["turn"].isin(arm["turn"])]  # measured together
    records = {"records": tuple(dict.fromkeys(run for side in pair for run in side["run_id"]))}
    rows = []
    for metric in METRICS:
        sides = [requests(side, metric) for side in pair]
        for q in (0.5, 0.99) if all(len(side.values) for side in sides) else ():
            own = [percentiles.percentile(side, q, interval=False).value for side in sides]
            change = row(percentiles.change(*sides, q), metric, q, *pair)
            rows.append(
                {"metric": metric, "q": q, "arm_s": own[0], "baseline_s": own[1], **change, **records}
            )
    return rows


def late_pace(pooled: pd.DataFrame) -> float:
    """Whether the engine was slow where first chunks came late (`stats.windows.late_first_chunks`).

    Median over late answers of E2E per token, over the median of their window's others, among
    `summaries.pooled_requests`; NaN where no answer is late, or all are.
    """
    window = ["arm", "load", "domain", "restart", "round"]
    timed = pooled.assign(pace_s=pooled["e2e_s"] / pooled["output_tokens"].clip(lower=1))
    usual = timed[~timed["late"]].groupby(window)["pace_s"].median().rename("usual_s")
    some = timed[timed["late"]].join(usual, on=window)
    return float((some["pace_s"] / some["usual_s"]).median())


@once
def poisson(runs: RunSet) -> pd.DataFrame:
    """One row per arm, rate and domain of the Poisson records.

    Columns: ARRIVALS, e2e_p50_estimate and e2e_p99_estimate (the `Estimate`s), and records (their ids).
        rate_per_s was asked for. arrived_per_s and served_per_s are what came and what left, each counted
        from its first to its last: the wait for the last answers belongs to neither. queue_wait_s is a mean,
        NaN of an engine that does not tell; `enough` is whether prompts are enough for a percentile.
    """
    groups: dict[tuple, list[RunRecord]] = {}
    for run in runs.poisson:
        key = (str(run.point.arm), run.point.traffic.domain, run.point.load.request_rate_per_s)
        groups.setdefault(key, []).append(run)
    return summaries.frame([_arrivals(key, group) for key, group in groups.items()], ARRIVALS)


def _arrivals(key: tuple, group: list[RunRecord]) -> dict[str, Any]:
    got = [run.measurement for run in group if run.measurement is not None]
    waits, finished = [one.server.queue_time_s for one in got], sum(one.throughput.completed for one in got)
    inside = answered(group)
    windows = [rows for _, rows in inside.groupby(["restart", "round"])]
    e2e = requests(inside, "e2e_s")
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
    return {**ends, f"{name}_enough": enough_for(q, estimate.n), f"{name}_estimate": estimate}


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
