"""Theory against measurement: what acceptance and the price of a step say the speed-up should be.

Everything here is `computed` from measured parts that are not the speed-up itself: the acceptance counters,
and the times between stream chunks, which are the steps.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, speedup, summaries
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet, once
from specbook.stats import theory

COSTS = (
    "load", "concurrency", "domain", "method", "num_speculative_tokens", "step_s", "baseline_step_s", "cost",
)  # fmt: skip
PRICES = ("method", "concurrency", "fixed_cost", "draft_cost", "num_speculative_tokens", "break_even_length")
EVERY_K = (
    "load", "concurrency", "domain", "method", "num_speculative_tokens", "length", "cost", "predicted",
)  # fmt: skip
CROSSOVERS = ("load", "domain", "measured", "predicted", "smallest", "largest")
AVERAGED = "all, averaged"
"""In place of a domain: the geometric mean over all."""
BOUNDS = (
    "load", "domain", "arm", "method", "label", "num_speculative_tokens", "length", "cost", "bound",
    "speedup", "low", "high", "estimate", "baseline_tokens_per_s", "tokens_per_s", "share", "decoding",
)  # fmt: skip
SPEEDUPS = (
    "load", "concurrency", "domain", "method", "num_speculative_tokens", "cost", "alpha", "length",
    "predicted",
)  # fmt: skip


@once
def step_costs(runs: RunSet) -> pd.DataFrame:
    """Price of a speculative step in steps of the best baseline, per method, batch, domain and K.

    A chunk leaves the server once a step (`stats.windows`), with speculation or without. Steps are
    paired by round, as speeds are; both are geometric means over the same rounds. Columns: COSTS.
    What shares no round with its baseline has no row.
    """
    table, rows = summaries.throughput(runs.closed), []
    for (load, domain), cell in table.groupby(["load", "domain"], sort=False) if len(table) else ():
        base, drafting = cell[cell["arm"] == speedup.best_baseline(cell)], cell["num_speculative_tokens"] > 0
        pairs = speedup.pairs(cell[drafting], base, "step_s")
        for (_, method, k), pair in pairs.groupby(["arm", "method", "num_speculative_tokens"], sort=False):
            step_s, base_s = np.exp(np.log(pair[["step_s", "step_s_base"]]).mean())
            rows.append(
                {"load": load, "concurrency": int(cell["concurrency"].iloc[0]), "domain": domain,
                 "method": method, "num_speculative_tokens": k, "step_s": step_s,
                 "baseline_step_s": base_s, "cost": step_s / base_s}
            )  # fmt: skip
    return summaries.frame(rows, COSTS)


def prices(costs: pd.DataFrame) -> pd.DataFrame:
    """`step_costs` as a line in K, per method and batch: cost = fixed_cost + K x draft_cost, domains pooled.

    A draft that proposes all K at once has a flat line. With a single K the two cannot be told apart: NaN.
    `break_even_length` is what a step must yield at the largest K measured, `num_speculative_tokens`.
    """
    rows = []
    for (method, batch), group in costs.groupby(["method", "concurrency"], sort=False):
        k, cost = group["num_speculative_tokens"], group["cost"]
        slope, start = np.polyfit(k, cost, 1) if k.nunique() > 1 else (np.nan, np.nan)
        rows.append(
            {"method": method, "concurrency": batch, "fixed_cost": start, "draft_cost": slope,
             "num_speculative_tokens": k.max(),
             "break_even_length": start + k.max() * slope if k.nunique() > 1 else cost.mean()}
        )  # fmt: skip
    return summaries.frame(rows, PRICES)


def speedups(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Predicted speed-up per method, batch, domain and K: one alpha per domain, one price line per batch.

    alpha is read off the acceptance length at the largest K measured, and taken as equal at every position;
    the price is `prices`, or the step's own cost where only one K was measured. Columns: SPEEDUPS; the length
    is the expected one.
    """
    runs = RunSet.of(runs).closed
    costs, alphas = step_costs(runs), _alphas(runs)
    if costs.empty or alphas.empty:
        return summaries.frame([], SPEEDUPS)
    line = prices(costs).drop(columns=["num_speculative_tokens", "break_even_length"])
    table = costs.merge(line, on=["method", "concurrency"]).merge(alphas, on=["load", "method", "domain"])
    k = table["num_speculative_tokens"]
    line = (table["fixed_cost"] + k * table["draft_cost"]).fillna(table["cost"])
    length = [theory.expected_acceptance_length(a, n) for a, n in zip(table["alpha"], k, strict=True)]
    table = table.assign(length=length, cost=line, predicted=np.array(length) / line)
    return table.drop(columns=["fixed_cost", "draft_cost", "step_s", "baseline_step_s"])


def errors(measured: pd.DataFrame, predicted: pd.DataFrame) -> pd.DataFrame:
    """Rows of the measured `speedup.speedups` that have one in `speedups`, beside it.

    Columns of both, `ratio`, predicted over measured, and `error`, the share by which the larger exceeds the
    other.
    """
    both = measured.merge(predicted, on=["load", "domain", "method", "num_speculative_tokens"])
    ratio = both["predicted"].astype(float) / both["speedup"].astype(float)
    return both.assign(ratio=ratio, error=np.exp(np.abs(np.log(ratio))) - 1)


def every_k(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """The speed-up at every K from 1 to the deepest measured, where at least two K say what a step costs.

    A draft's first tokens do not depend on how many follow, so the joint acceptance of the deepest K gives
    the length at each smaller one; the price is the line of `prices`. Columns: EVERY_K.
    """
    runs = RunSet.of(runs).closed
    lengths, lines = acceptance.by_domain(runs), prices(step_costs(runs)).dropna()
    batch = {run.point.load.label: run.point.load.concurrency for run in runs}
    rows: list[dict[str, Any]] = []
    for (load, domain, method), cell in lengths.groupby(["load", "domain", "method"], sort=False):
        line = lines[(lines["method"] == method) & (lines["concurrency"] == batch[load])]
        deepest = cell.loc[cell["num_speculative_tokens"].idxmax()]
        for k in range(1, deepest["num_speculative_tokens"] + 1) if len(line) else ():
            length = theory.acceptance_length(deepest["joint"], k)
            cost = float(line["fixed_cost"].iloc[0] + k * line["draft_cost"].iloc[0])
            rows.append(
                {"load": load, "concurrency": batch[load], "domain": domain, "method": method,
                 "num_speculative_tokens": k, "length": length, "cost": cost, "predicted": length / cost}
            )  # fmt: skip
    return summaries.frame(rows, EVERY_K)


def across_domains(every: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean over domains of `every_k`'s `predicted`, by load, method and num_speculative_tokens."""
    logs = every.assign(predicted=np.log(every["predicted"].astype(float)))
    means = logs.groupby(["load", "method", "num_speculative_tokens"])["predicted"].mean()
    return np.exp(means).reset_index()


def in_theory(alpha: float, k: int, draft_cost: float, fixed_cost: float) -> float:
    """Speed-up with acceptance `alpha` at every position; costs are in baseline steps (`theory.speedup`)."""
    return theory.speedup(theory.expected_acceptance_length(alpha, k), k, draft_cost, fixed_cost)


def crossovers(measured: pd.DataFrame, predicted: pd.DataFrame, serial: str, parallel: str) -> pd.DataFrame:
    """From which K on drafting in parallel is faster than drafting in series: measured, and predicted.

    Between two K the speed-up is a straight line. `measured` is of `speedup.speedups`, `predicted` of
    `every_k`; `serial` and `parallel` are methods, e.g. `EAGLE-3` and `P-EAGLE`.

    For each load a row of AVERAGED, over the domains that both methods have at a K, and then one a domain.
    Columns: CROSSOVERS: measured and predicted K (maybe a fraction; the smallest K where it is faster from
    the start; NaN where it never is), and the range of K that was measured.
    """
    rows = []
    for load, cell in measured.groupby("load", sort=False):
        guesses = predicted[predicted["load"] == load]
        for domain in (AVERAGED, *dict.fromkeys(cell["domain"])):
            lead, predicted_lead = (
                _leads(
                    part if domain == AVERAGED else part[part["domain"] == domain], value, serial, parallel
                )
                for part, value in ((cell, "speedup"), (guesses, "predicted"))
            )
            if len(lead) and len(predicted_lead):
                rows.append(
                    {"load": load, "domain": domain, "measured": _crossing(lead),
                     "predicted": _crossing(predicted_lead), "smallest": lead.index.min(),
                     "largest": lead.index.max()}
                )  # fmt: skip
    return summaries.frame(rows, CROSSOVERS)


def _leads(table: pd.DataFrame, value: str, serial: str, parallel: str) -> pd.Series:
    """By K: the logarithm of the parallel method's speed over the serial one's, domains averaged."""
    wide = table.pivot_table(
        index=["num_speculative_tokens", "domain"], columns="method", values=value, aggfunc="mean"
    ).reindex(columns=[serial, parallel])
    lead = np.log(wide[parallel].astype(float)) - np.log(wide[serial].astype(float))
    return lead.dropna().groupby(level=0).mean().sort_index()


def _crossing(lead: pd.Series) -> float:
    """The K from which on `lead` stays above 0; NaN where it ends below."""
    k, values = lead.index.to_numpy(float), lead.to_numpy(float)
    below = np.flatnonzero(values <= 0)
    if not len(below):
        return float(k[0])
    last = below[-1]
    if last == len(k) - 1:
        return np.nan
    share = -values[last] / (values[last + 1] - values[last])
    return float(k[last] + share * (k[last + 1] - k[last]))


def bounds(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Table of how much of what each arm's steps promise arrives: the end-to-end speed-up beside its bound.

    The bound is the tokens of a step over its price, both measured in the streams: one that did nothing but
    decode would reach it. Steps without a draft count, which the acceptance length leaves out: ngram has
    many. `decoding` is the share that arrives with the time to each first token left out: what `share` lacks
    beyond it goes into reading prompts and waiting for a turn. Columns: BOUNDS.
    """
    runs = RunSet.of(runs).closed
    key = ["load", "domain", "method", "num_speculative_tokens"]
    lengths = acceptance.tokens_a_step(summaries.pooled_requests(runs), key).rename("length").reset_index()
    table = speedup.speedups(runs).merge(lengths, on=key).merge(step_costs(runs)[[*key, "cost"]], on=key)
    decoded = speedup.speedups(runs, speed="decode_tokens_per_s").rename(columns={"speedup": "decoded"})
    arm = ["load", "domain", "arm"]
    table = table.merge(decoded[[*arm, "decoded"]], on=arm, how="left")
    table = table.astype(dict.fromkeys(("length", "cost", "speedup", "decoded"), float))
    bound = table["length"] / table["cost"]
    shares = {"share": table["speedup"] / bound, "decoding": table["decoded"] / bound}
    return table.assign(bound=bound, **shares)[list(BOUNDS)]


def _alphas(runs: RunSet) -> pd.DataFrame:
    lengths = acceptance.by_domain(runs)
    if lengths.empty:
        return lengths
    key = ["load", "method", "domain"]
    deepest = lengths.loc[lengths.groupby(key, sort=False)["num_speculative_tokens"].idxmax()]
    alpha = [
        theory.alpha_from_acceptance_length(n, k)
        for n, k in zip(deepest["length"], deepest["num_speculative_tokens"], strict=True)
    ]
    return deepest[key].assign(alpha=alpha)
