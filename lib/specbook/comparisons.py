"""Arm against baseline: speed-ups paired by restart, each method's best K, and the change of the tail.

Arms are compared only within `summaries.CELL`, never across machines, precisions, loads or prompts.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from specbook import ratios, stats, summaries
from specbook.errors import RecordError
from specbook.records import RunRecord
from specbook.summaries import CELL, NAMES, Speed

POOLED = "all domains"
"""What stands for the domain where all of them are pooled."""


def best_baseline(cell: pd.DataFrame, speed: Speed = "output_tokens_per_s") -> str | None:
    """The baseline arm with the highest median speed in one cell of `summaries.throughput`; None without
    one."""
    medians = cell[cell["method"] == "baseline"].groupby("arm")[speed].median()
    return str(medians.idxmax()) if len(medians) else None


def speedups(
    runs: Iterable[RunRecord], baseline: str = "best", speed: Speed = "output_tokens_per_s"
) -> pd.DataFrame:
    """Each arm's speed over the baseline's, paired by restart, in every cell.

    Args:
        runs: records; failed ones are left out.
        baseline: `best`, the faster execution mode in that cell; or an arm, e.g. `baseline (eager)`.
        speed: the column of `summaries.throughput` to compare.

    Returns:
        Columns: CELL, arm, method, num_speculative_tokens, baseline (which arm it was),
            baseline_tokens_per_s and tokens_per_s (geometric means over the same restarts), speedup, low,
            high, n, ci_method, and `estimate` (the `Estimate`). Cells without the baseline, and arms that
            share no restart with it, have no row.

    Raises:
        RecordError: if two drafts bear one label, so that an arm has a restart twice.
    """
    table, rows = summaries.throughput(runs), []
    for key, cell in table.groupby(CELL, sort=False) if len(table) else ():
        _refuse_twins(cell)
        base = best_baseline(cell, speed) if baseline == "best" else baseline
        reference = cell[cell["arm"] == base].set_index("restart")[speed]
        for arm, group in cell[cell["arm"] != base].groupby("arm", sort=False):
            pairs = pd.concat([group.set_index("restart")[speed], reference], axis=1, join="inner").dropna()
            if len(pairs):
                names = {name: group[name].iloc[0] for name in ("method", "num_speculative_tokens")}
                head = {**dict(zip(CELL, key, strict=True)), "arm": arm, **names, "baseline": base}
                rows.append(head | _ratio(pairs.iloc[:, 0], pairs.iloc[:, 1]))
    return pd.DataFrame(rows)


def _refuse_twins(cell: pd.DataFrame) -> None:
    twins = cell[cell.duplicated(["arm", "restart"])]
    if len(twins):
        raise RecordError(
            f"two configurations are both called {twins['arm'].iloc[0]!r} (two drafts of one method?): "
            "compare them one at a time"
        )


def _ratio(arm: pd.Series, base: pd.Series) -> dict[str, Any]:
    found = ratios.ratio_ci(arm, base)
    return {
        "baseline_tokens_per_s": ratios.geometric_mean_ci(base).value,
        "tokens_per_s": ratios.geometric_mean_ci(arm).value,
        "speedup": found.value, "low": found.low, "high": found.high, "n": found.n, "ci_method": found.method,
        "estimate": found,
    }  # fmt: skip


def best_k(runs: Iterable[RunRecord], by: tuple[str, ...] = ("load",), **how: Any) -> pd.DataFrame:
    """Each method at its own best K, per load (add "domain" to `by` for one per domain).

    The rows of `speedups(runs, **how)` whose arm has the highest geometric mean speed-up over its group,
    and that mean as `group_speedup`. Domains count once each (macro); only arms measured in as many cells
    as the fullest one compete. The interval is that of one arm: it does not know that this arm was picked,
    so close K are a tie.

    Raises:
        RecordError: if records of two plans are mixed; see `across_domains`.
    """
    table = speedups(runs, **how)
    if table.empty:
        return table
    table = table[table["method"] != "baseline"]
    group = [*(name for name in NAMES if name not in ("load", "domain")), *by, "method"]
    means = _macro(table, [*group, "arm"]).rename(columns={"speedup": "group_speedup"})
    means = means[means["cells"] == means.groupby(group)["cells"].transform("max")]
    best = means.loc[means.groupby(group, sort=False)["group_speedup"].idxmax()]
    return table.merge(best[[*group, "arm", "group_speedup"]], on=[*group, "arm"])


def across_domains(table: pd.DataFrame) -> pd.DataFrame:
    """`speedups` averaged over domains (macro: geometric mean, each domain once), per load and arm.

    Beside it stand the `worst` and the `best` domain, so that a mean never hides a loss, and how many `cells`
    it is of. No interval: domains are not a sample of anything.

    Raises:
        RecordError: if a domain is there twice, measured under two setups.
    """
    names = [name for name in NAMES if name != "domain"]
    return _macro(table, [*names, "arm", "method", "num_speculative_tokens"])


def _macro(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    twice = table[table.duplicated([*NAMES, "arm"])]
    if len(twice):
        first = twice.iloc[0]
        raise RecordError(
            f"{first['arm']} at {first['load']}, {first['domain']} was measured under two setups "
            "(quick and full?): summarise the records of one plan at a time"
        )
    speedup = table.groupby(keys, sort=False)["speedup"]
    means = speedup.agg(lambda x: float(np.exp(np.log(x).mean())))
    return pd.DataFrame(
        {"speedup": means, "worst": speedup.min(), "best": speedup.max(), "cells": speedup.size()}
    ).reset_index()


def best_over_domains(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row of `across_domains` per load: the arm, baselines aside, that is fastest over the domains."""
    means = across_domains(speedups(runs))
    means = means[means["method"] != "baseline"]
    return means.loc[means.groupby("load", sort=False)["speedup"].idxmax()]


def tails(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """`p99_delta` of `best_over_domains`' arms: each domain, and POOLED all together."""
    runs = list(runs)
    best = set(best_over_domains(runs)[["load", "arm"]].itertuples(index=False, name=None))
    points = ((run, run.point) for run in runs)
    kept = [run for run, p in points if p.speculation is None or (p.load.label, p.arm) in best]
    pooled = p99_delta(kept, tuple(name for name in CELL if name not in ("domain", "setup")))
    return pd.concat([p99_delta(kept), pooled.assign(domain=POOLED)], ignore_index=True)


def p99_delta(
    runs: Iterable[RunRecord], by: tuple[str, ...] = tuple(CELL), q: float = 0.99, seed: int = 0
) -> pd.DataFrame:
    """What speculation does to the tail: each arm's percentile minus the best baseline's, in seconds.

    Columns: `by`, arm, baseline, metric, p99_s, baseline_p99_s, delta_s, low_s, high_s (percentile bootstrap
    over requests, restarts pooled), n, baseline_n, enough (both sides have samples enough for `q`; else mark
    it, and there is no interval). ITL is left out: a gap holds several tokens under speculation, one without.
    """
    good = summaries.latest(runs)
    pooled, table, rows = summaries.pooled_requests(good), summaries.throughput(good), []
    for key, cell in table.groupby(list(by), sort=False):
        base = best_baseline(cell)
        same = pooled[(pooled[list(by)] == list(key)).all(axis=1)]
        for arm, group in same[same["method"] != "baseline"].groupby("arm", sort=False) if base else ():
            head = {**dict(zip(by, key, strict=True)), "arm": arm, "baseline": base}
            for metric in ("ttft_s", "tpot_s", "e2e_s"):
                pair = summaries.samples(group, metric), summaries.samples(same[same["arm"] == base], metric)
                if all(len(side) for side in pair):
                    rows.append({**head, "metric": metric, **_tail(*pair, q, seed)})
    return pd.DataFrame(rows)


def _tail(arm: np.ndarray, base: np.ndarray, q: float, seed: int) -> dict[str, Any]:
    values = [float(np.quantile(side, q)) for side in (arm, base)]
    enough = stats.enough_for(q, min(len(arm), len(base)))
    low = high = None
    if enough:
        rng = np.random.default_rng(seed)
        drawn = [np.quantile(rng.choice(side, (999, len(side))), q, axis=1) for side in (arm, base)]
        low, high = map(float, np.quantile(drawn[0] - drawn[1], [0.025, 0.975]))
    return {
        "p99_s": values[0], "baseline_p99_s": values[1], "delta_s": values[0] - values[1], "low_s": low,
        "high_s": high, "n": len(arm), "baseline_n": len(base), "enough": enough,
    }  # fmt: skip
