"""Theory against measurement: what acceptance and the price of a step say the speed-up should be.

Everything here is `computed` from measured parts that are not the speed-up itself: the acceptance counters,
and the gaps between stream chunks, which are the steps.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, arrivals, speedup, summaries
from specbook.records import select
from specbook.records.run import RunRecord
from specbook.stats import theory

COSTS = (
    "load", "concurrency", "domain", "method", "num_speculative_tokens", "step_s", "baseline_step_s", "cost",
)  # fmt: skip
PRICES = ("method", "concurrency", "verify_cost", "draft_cost", "num_speculative_tokens", "break_even_length")
SPEEDUPS = (
    "load", "concurrency", "domain", "method", "num_speculative_tokens", "cost", "alpha", "length",
    "predicted",
)  # fmt: skip


def step_costs(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Price of a speculative step in steps of the best baseline, per method, batch, domain and K.

    A chunk leaves the server once a step, so the median ITL is the step, with speculation or without.
    Columns: COSTS. A batch and domain without a baseline have no row.
    """
    good = arrivals.closed(select.current(runs))
    pooled, table = summaries.pooled_requests(good), summaries.throughput(good)
    rows = []
    for (load, domain), cell in pooled.groupby(["load", "domain"], sort=False):
        base = speedup.best_baseline(table[(table["load"] == load) & (table["domain"] == domain)])
        names = ["arm", "method", "num_speculative_tokens"]
        step_s = {key: _median_gap(group) for key, group in cell.groupby(names, sort=False)}
        base_s = next((s for key, s in step_s.items() if key[0] == base), None)
        rows += [
            {"load": load, "concurrency": int(cell["concurrency"].iloc[0]), "domain": domain,
             "method": key[1], "num_speculative_tokens": key[2],
             "step_s": s, "baseline_step_s": base_s, "cost": s / base_s}
            for key, s in step_s.items() if key[2] > 0 and base_s is not None
        ]  # fmt: skip
    return summaries.frame(rows, COSTS)


def _median_gap(group: pd.DataFrame) -> float:
    return float(np.median(summaries.samples(group, "itl_s")))


def prices(costs: pd.DataFrame) -> pd.DataFrame:
    """`step_costs` as a line in K, per method and batch: cost = verify_cost + K x draft_cost, domains pooled.

    A draft that proposes all K at once has a flat line. With a single K the two cannot be told apart: NaN.
    `break_even_length` is what a step must yield at the largest K measured, `num_speculative_tokens`.
    """
    rows = []
    for (method, batch), group in costs.groupby(["method", "concurrency"], sort=False):
        k, cost = group["num_speculative_tokens"], group["cost"]
        slope, start = np.polyfit(k, cost, 1) if k.nunique() > 1 else (np.nan, np.nan)
        rows.append(
            {"method": method, "concurrency": batch, "verify_cost": start, "draft_cost": slope,
             "num_speculative_tokens": k.max(),
             "break_even_length": start + k.max() * slope if k.nunique() > 1 else cost.mean()}
        )  # fmt: skip
    return summaries.frame(rows, PRICES)


def speedups(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Predicted speed-up per method, batch, domain and K: one alpha per domain, one price line per batch.

    alpha is read off the acceptance length at the largest K measured, and taken as equal at every position;
    the price is `prices`, or the step's own cost where only one K was measured. Columns: load, concurrency,
    domain, method, num_speculative_tokens, alpha, length (expected), cost, predicted.
    """
    runs = arrivals.closed(runs)
    costs, alphas = step_costs(runs), _alphas(runs)
    if costs.empty or alphas.empty:
        return summaries.frame([], SPEEDUPS)
    line = prices(costs).drop(columns=["num_speculative_tokens", "break_even_length"])
    table = costs.merge(line, on=["method", "concurrency"]).merge(
        alphas, on=["method", "concurrency", "domain"]
    )
    k = table["num_speculative_tokens"]
    line = (table["verify_cost"] + k * table["draft_cost"]).fillna(table["cost"])
    length = [theory.expected_acceptance_length(a, n) for a, n in zip(table["alpha"], k, strict=True)]
    table = table.assign(length=length, cost=line, predicted=np.array(length) / line)
    return table.drop(columns=["verify_cost", "draft_cost", "step_s", "baseline_step_s"])


def _alphas(runs: Iterable[RunRecord]) -> pd.DataFrame:
    runs = list(runs)
    found = acceptance.by_domain(runs)
    if found.empty:
        return found
    batch = {run.point.load.label: run.point.load.concurrency for run in runs}
    found = found.assign(concurrency=found["load"].map(batch))
    key = ["method", "concurrency", "domain"]
    deepest = found.loc[found.groupby(key, sort=False)["num_speculative_tokens"].idxmax()]
    alpha = [
        theory.alpha_from_acceptance_length(n, k)
        for n, k in zip(deepest["length"], deepest["num_speculative_tokens"], strict=True)
    ]
    return deepest[key].assign(alpha=alpha)
