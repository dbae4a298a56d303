"""Requests -> tables of latency percentiles, each restart's own, with n in distinct prompts."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import summaries
from specbook.analysis.summaries import CELL
from specbook.records.run import RunRecord
from specbook.stats import percentiles, power
from specbook.stats.estimate import Estimate
from specbook.stats.percentiles import Requests, enough_for

LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
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

    0 where it is the prompts that are too few; more than `power.MOST_RESTARTS` where even those are.
    """
    if not estimate.low or estimate.high <= WIDE * estimate.low:
        return None
    own = percentiles.by_restart(times_s, q)
    spread = own.std(ddof=1) / own.mean()  # of the logarithm, as in the interval
    needed = power.restarts_for(1 - WIDE**-0.5, spread, True, wanted=0.5) or power.MOST_RESTARTS + 1
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


def late_pace(requests: pd.DataFrame) -> float:
    """Whether the engine was slow where first chunks came late (`stats.windows.late_first_chunks`).

    Median over late answers of E2E per token, over the median of their window's others, among
    `summaries.pooled_requests`; NaN where no answer is late, or all are.
    """
    window = ["arm", "load", "domain", "restart", "round"]
    timed = requests.assign(pace_s=requests["e2e_s"] / requests["output_tokens"].clip(lower=1))
    usual = timed[~timed["late"]].groupby(window)["pace_s"].median().rename("usual_s")
    some = timed[timed["late"]].join(usual, on=window)
    return float((some["pace_s"] / some["usual_s"]).median())
