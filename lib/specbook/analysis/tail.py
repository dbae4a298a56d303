"""What speculation does to the slowest requests: percentiles of each arm against the baseline's."""

from collections.abc import Iterable

import pandas as pd

from specbook.analysis import latency, summaries
from specbook.analysis.speedup import best_baseline, best_over_domains
from specbook.analysis.summaries import CELL
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import percentiles

POOLED = "all domains"
"""What stands for the domain where all of them are pooled."""
ACROSS = [name for name in CELL if name not in ("domain", "setup")]
"""What stays of CELL where domains are pooled."""
COLUMNS = (
    *CELL, "arm", "method", "label", "baseline", "metric", "q", "arm_s", "baseline_s", "value", "low", "high",
    "n", "enough", "late", "estimate",
)  # fmt: skip
METRICS = ("ttft_s", "tpot_s", "e2e_s")
"""ITL is left out: a gap holds several tokens under speculation, one without."""


def tails(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """`changes` of `best_over_domains`' arms: each domain, and POOLED where there are several."""
    runs = RunSet.of(runs)
    best = best_over_domains(runs)
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

    Columns: COLUMNS, of which arm_s and baseline_s are both arms' own and those from value on `latency.row`'s
    for the change; and records (their ids, the arm's first). No rows where no round has both.
    """
    runs = RunSet.of(runs)
    if chosen is not None:
        if chosen.empty:
            return summaries.frame([], COLUMNS)
        arms = set(chosen[["load", "arm"]].itertuples(index=False, name=None))
        points = ((run, run.point) for run in runs)
        runs = RunSet(r for r, p in points if p.speculation is None or (p.load.label, str(p.arm)) in arms)
    answered, by = latency.answered(runs), ACROSS if pooled else CELL
    needed = {*CELL, "arm", "method", "label", "restart", "run_id", "prompt", "late", *METRICS}
    turns = answered.groupby(["domain", "restart", "round"]).ngroup()
    kept = answered[[name for name in answered if name in needed]].assign(turn=turns)
    cells, rows = dict(list(kept.groupby(by, sort=False))), []
    for key, cell in summaries.throughput(runs).groupby(by, sort=False):
        base, same = best_baseline(cell), cells.get(key, kept[:0])
        for arm, group in same[same["method"] != "baseline"].groupby("arm", sort=False) if base else ():
            names = {name: group[name].iloc[0] for name in ("method", "label")}
            head = {**dict(zip(by, key, strict=True)), "arm": arm, **names, "baseline": base}
            rows += [head | change for change in _changes(group, same[same["arm"] == base])]
    return summaries.frame(rows, COLUMNS)


def _changes(arm: pd.DataFrame, base: pd.DataFrame) -> list[dict[str, object]]:
    pair = arm[arm["turn"].isin(base["turn"])], base[base["turn"].isin(arm["turn"])]  # measured together
    records = {"records": tuple(dict.fromkeys(run for side in pair for run in side["run_id"]))}
    rows = []
    for metric in METRICS:
        sides = [latency.requests(side, metric) for side in pair]
        for q in (0.5, 0.99) if all(len(side.values) for side in sides) else ():
            own = [percentiles.percentile(side, q, interval=False).value for side in sides]
            change = latency.row(percentiles.change(*sides, q), metric, q, *pair)
            rows.append(
                {"metric": metric, "q": q, "arm_s": own[0], "baseline_s": own[1], **change, **records}
            )
    return rows
