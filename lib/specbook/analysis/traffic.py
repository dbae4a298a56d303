"""Structured traffic against open-ended traffic: what each gains from a draft, and whether TTFT stays."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import pandas as pd

from specbook.analysis import acceptance, latency, speedup, summaries
from specbook.analysis.speedup import PairedRatios
from specbook.config.schema import Domain
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats.estimate import Estimate

STRUCTURED, OPEN = "structured", "open-ended"
TRAINED = get_args(Domain)
"""Domains that the pocket target and its heads learnt from, ..."""
UNSEEN, MIXED = "sql", "mixed"
"""... one that neither has seen, and the held-out prompts of all TRAINED in turn."""
KINDS = {"json": STRUCTURED, "math": STRUCTURED, "chat": OPEN, "prose": OPEN}
"""Kind of each pocket domain: records and sums have one form, a chat or a text may go on in many ways."""
SAME = 0.05
"""A median that moved by no more than this share of itself is called unchanged: chosen, as no source says."""
GAINS = (
    "load", "concurrency", "method", "arm", "num_speculative_tokens", "traffic", "domains", "speedup", "low",
    "high", "estimate", "paired",
)  # fmt: skip
LENGTHS = ["method", "num_speculative_tokens", "traffic", "length"]
FIRST = ("load", "method", "arm", "metric", "baseline_s", "arm_s", "estimate", "verdict")
Verdict = Literal["unchanged", "changed", "undecided", "no interval"]


def kind(domain: str) -> str:
    """Which traffic a domain is of; one that is none of KINDS stands for itself."""
    return KINDS.get(domain, domain)


def gains(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Speed-up of every arm by kind of traffic: the geometric mean of its domains, restart by restart.

    Columns: GAINS; `domains` are those that the mean is of.
    """
    runs = RunSet.of(runs)
    table = speedup.speedups(runs)
    table = table[table["method"] != "baseline"]
    table = table.assign(traffic=table["domain"].map(kind))
    batch = {run.point.load.label: run.point.load.concurrency for run in runs}
    names = ["load", "method", "arm", "num_speculative_tokens", "traffic"]
    rows = []
    for key, cell in table.groupby(names, sort=False):
        estimate = speedup.over_domains(cell)
        rows.append(
            {**dict(zip(names, key, strict=True)), "concurrency": batch[key[0]],
             "domains": tuple(cell["domain"]), "speedup": estimate.value, "low": estimate.low,
             "high": estimate.high, "estimate": estimate, "paired": PairedRatios.mean(list(cell["paired"]))}
        )  # fmt: skip
    return summaries.frame(rows, GAINS)


def best(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `gains` at each method's best K, by load and traffic; those of one load and method together."""
    fastest = table.loc[table.groupby(["load", "method", "traffic"], sort=False)["speedup"].idxmax()]
    parts = [cell for _, cell in fastest.groupby(["load", "method"], sort=False)]
    return pd.concat(parts, ignore_index=True) if parts else fastest


def lengths(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Acceptance length in tokens/step at the first load, each domain of a kind counted once. LENGTHS."""
    table = acceptance.by_domain(runs)
    table = table[table["load"].isin(table["load"][:1])]
    table = table.assign(traffic=table["domain"].map(kind))
    kinds = table.astype({"length": float}).groupby(LENGTHS[:-1], sort=False)
    return kinds["length"].mean().reset_index()


def first_token(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Median TTFT and TPOT of each method's best arm beside the best baseline's, all domains together.

    Columns: FIRST. `estimate` is the change in seconds, `verdict` what can be said of it at SAME.
    """
    runs = RunSet.of(runs)
    table = latency.changes(runs, speedup.best_k(runs), pooled=True)
    table = table[table["q"].eq(0.5) & table["metric"].isin(["ttft_s", "tpot_s"])]
    said = [verdict(row.estimate, row.baseline_s) for row in table.itertuples()]
    return table.assign(verdict=said)[list(FIRST)].reset_index(drop=True)


def verdict(change: Estimate, base: float) -> Verdict:
    """What an interval says of "unchanged", which is a change of at most SAME of `base`, in its unit.

    `unchanged` if all of the interval lies within, `changed` if none of it does, else `undecided`.
    """
    if change.low is None or change.high is None:
        return "no interval"
    most = SAME * base
    if -most <= change.low and change.high <= most:
        return "unchanged"
    return "changed" if change.low > most or change.high < -most else "undecided"


def contrast(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of both kinds in `best`, and the `ratio` of the two gains, for each load and method that has both.

    The ratio is taken restart by restart; its interval covers restarts and prompts.
    """
    rows = []
    for (load, method), cell in table.groupby(["load", "method"], sort=False):
        sides = {row["traffic"]: row for _, row in cell.iterrows()}
        if {STRUCTURED, OPEN} <= set(sides):
            ratio = sides[STRUCTURED]["paired"].over(sides[OPEN]["paired"])
            estimate = ratio.estimate() if len(ratio.by_restart) else None
            rows.append({"load": load, "method": method, "ratio": estimate, **sides})
    return rows
