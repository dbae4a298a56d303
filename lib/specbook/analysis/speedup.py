"""Arm against baseline: speed-ups paired by restart, each method's best K, and what other campaigns found.

Arms are compared only within `summaries.CELL`, never across machines, precisions, loads or prompts. The ratio
of their speeds is a sample of restarts and of prompts.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from specbook.analysis import summaries
from specbook.analysis.summaries import CELL, NAMES, Speed
from specbook.errors import RecordError
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet, once, once_a_run
from specbook.stats import ratios
from specbook.stats.estimate import Estimate

ROUND = ("restart", "round")
ARM = ["arm", "method", "label", "num_speculative_tokens"]
COLUMNS = (
    *CELL, *ARM, "baseline", "baseline_execution", "baseline_tokens_per_s", "tokens_per_s", "speedup", "low",
    "high", "n", "estimate", "paired", "records",
)  # fmt: skip
BESIDE_LOOPS = ("load", "domain", "label", "capped", "loops", "loop_tokens", "every", "without")
PAST_TRAINING = ("load", "method", "depth", "num_speculative_tokens", "estimate")
Answered = Mapping[str, pd.DataFrame]
"""run_id -> the tokens and seconds of each (domain, prompt): of `answered`."""


class PairedRatios(NamedTuple):
    """An arm's speed over another's, measured in the same rounds."""

    by_restart: pd.Series
    """restart -> ratio, the geometric mean over its rounds."""
    by_prompt: pd.Series
    """(domain, prompt) -> change of the log ratio without that prompt; see `ratios.leave_one_out`."""

    @classmethod
    def mean(cls, parts: Sequence["PairedRatios"]) -> "PairedRatios":
        """Geometric mean over domains; restarts that lack one of them are another mix, and left out."""
        both = pd.concat([part.by_restart for part in parts], axis=1, join="inner")
        changes = pd.concat([part.by_prompt for part in parts]) / len(parts)
        return cls(np.exp(np.log(both).mean(axis=1)), changes)

    def over(self, other: "PairedRatios") -> "PairedRatios":
        """This ratio over the other, in the restarts that both have."""
        both = self.by_restart.index.intersection(other.by_restart.index)
        changes = self.by_prompt.sub(other.by_prompt, fill_value=0.0)
        return PairedRatios(self.by_restart[both] / other.by_restart[both], changes)

    def estimate(self) -> Estimate:
        """The geometric mean over restarts, with an interval that covers restarts and prompts."""
        changes, of = self.by_prompt.to_numpy(), self.by_prompt.index.codes[0]
        domains = [changes[of == domain] for domain in dict.fromkeys(of.tolist())]
        return ratios.crossed_ci(self.by_restart, domains)


def best_baseline(cell: pd.DataFrame, speed: Speed = "output_tokens_per_s") -> str | None:
    """The baseline arm with the highest median speed in one cell of `summaries.throughput`; None without
    one."""
    medians = cell[cell["method"] == "baseline"].groupby("arm")[speed].median().dropna()
    return str(medians.idxmax()) if len(medians) else None


@once
def speedups(runs: RunSet, speed: Speed = "output_tokens_per_s") -> pd.DataFrame:
    """Each arm's speed over the faster baseline's, paired by round, in every cell.

    Several rounds of one restart are one value: n counts restarts. The interval covers prompts, too. `speed`
    is the column of `summaries.throughput` to compare.

    Columns: COLUMNS, of which `baseline` is the arm that it was, both tokens_per_s are geometric means over
        the same rounds, `paired` is the `PairedRatios`, and records are ids, the arm's first. Cells without
        the baseline, and arms that share no round with it, have no row.

    Raises:
        RecordError: if two drafts bear one label, so that an arm has a round twice.
    """
    table, sums, rows = summaries.throughput(runs), answered(runs, speed), []
    both = _beside_baselines(table, speed) if len(table) else table
    for _, own in both.groupby(["cell", "arm"], sort=False) if len(both) else ():
        head = {name: own[name].iloc[0] for name in (*CELL, *ARM, "baseline", "baseline_execution")}
        arm, base = _by_restart(own, speed)
        over = _paired(arm / base, own, sums)
        estimate = over.estimate()
        rows.append(head | {
            "records": (*own["run_id"], *own["run_id_base"]),
            "baseline_tokens_per_s": ratios.geometric_mean_ci(base).value,
            "tokens_per_s": ratios.geometric_mean_ci(arm).value,
            "speedup": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n,
            "estimate": estimate, "paired": over,
        })  # fmt: skip
    return summaries.frame(rows, COLUMNS)


def _beside_baselines(table: pd.DataFrame, speed: Speed) -> pd.DataFrame:
    """`pairs` of all cells, one after the other, with `cell`, `baseline` and `baseline_execution`."""
    table = table[[*CELL, *ARM, "execution", "restart", "round", "run_id", speed]]
    table = table.assign(cell=table.groupby(CELL, sort=False).ngroup())
    twins = table[table.duplicated(["cell", "arm", "restart", "round"])]
    if len(twins):
        raise RecordError(
            f"two configurations are both called {twins['arm'].iloc[0]!r} (two drafts of one method?): "
            "compare them one at a time"
        )
    best = {number: best_baseline(cell, speed) for number, cell in table.groupby("cell")}
    table["baseline"] = table["cell"].map(best)
    is_base = table["arm"] == table["baseline"]
    table["baseline_execution"] = table["cell"].map(table[is_base].groupby("cell")["execution"].first())
    both = pairs(table[~is_base], table[is_base], speed, ("cell", *ROUND))
    return both.sort_values("cell", kind="stable")


def pairs(arms: pd.DataFrame, base: pd.DataFrame, column: str, same: Sequence[str] = ROUND) -> pd.DataFrame:
    """Each arm's records, and `run_id` and `column` of the baseline's of the same round (equal in `same`):
    one join for all arms, since each takes pandas milliseconds.

    Both are rows of `summaries.throughput`; those without a value of `column` in either are left out.
    """
    own = base[[*same, "run_id", column]]
    both = arms.merge(own, on=list(same), suffixes=("", "_base"))
    return both.dropna(subset=[column, f"{column}_base"])


def ratio(own: pd.DataFrame, speed: Speed, sums: Answered) -> PairedRatios:
    """Ratio of one arm's speed to the baseline's, from its `pairs`.

    Both speeds per restart are geometric means over the rounds that both have.
    """
    arm, base = _by_restart(own, speed)
    return _paired(arm / base, own, sums)


def _paired(by_restart: pd.Series, own: pd.DataFrame, sums: Answered) -> PairedRatios:
    windows = ([sums[run_id] for run_id in own[column]] for column in ("run_id", "run_id_base"))
    return PairedRatios(by_restart, by_prompt(*windows))


def _by_restart(own: pd.DataFrame, speed: Speed) -> tuple[pd.Series, pd.Series]:
    """Both arms' speeds, restart -> geometric mean over its rounds."""
    restarts, places, rounds = np.unique(own["restart"], return_inverse=True, return_counts=True)
    logs = (np.log(own[name].to_numpy(float)) for name in (speed, f"{speed}_base"))
    index = pd.Index(restarts, name="restart")
    arm, base = (pd.Series(np.exp(np.bincount(places, one) / rounds), index) for one in logs)
    return arm, base


def answered(runs: Iterable[RunRecord], speed: Speed) -> Answered:
    """run_id -> the tokens and seconds that each (domain, prompt) adds to `speed`.

    Only requests of the steady window count where a record has one. Seconds are E2E, or for the decoding
    speeds those after the first token: see `summaries.throughput`.
    """
    return {run.run_id: _sums(run, speed) for run in RunSet.of(runs)}


@once_a_run
def _sums(run: RunRecord, speed: Speed) -> pd.DataFrame:
    rows, decode = summaries.arrays(run), speed != "output_tokens_per_s"
    tokens, e2e_s, ttft_s = (rows[name].astype(float) for name in ("output_tokens", "e2e_s", "ttft_s"))
    kept = rows["inside"] & ~(rows["loops"] & (speed == "decode_tokens_per_s_without_loops"))
    if decode:
        kept &= ~rows["late"] & (tokens > 1)
    prompts, names = pd.factorize(rows["prompt_id"][kept], sort=True)
    parts = {"tokens": tokens - decode, "seconds": e2e_s - decode * ttft_s}
    sums = {name: np.bincount(prompts, part[kept]) for name, part in parts.items()}
    return pd.DataFrame(sums, _prompts(run.point.traffic.domain, tuple(names)))


@lru_cache(maxsize=256)  # one object, which pandas then knows to be equal: windows repeat their prompts
def _prompts(domain: str, names: tuple[str, ...]) -> pd.MultiIndex:
    return pd.MultiIndex.from_product([[domain], names], names=["domain", "prompt_id"])


def by_prompt(arm: Sequence[pd.DataFrame], base: Sequence[pd.DataFrame] = ()) -> pd.Series:
    """`PairedRatios.by_prompt` of two arms' windows, `answered` of each; or of one arm's own speed."""
    indices = [window.index for window in (*arm, *base)]
    prompts = indices[0]
    if not all(one.equals(prompts) for one in indices):  # then what any of them has
        prompts = pd.MultiIndex.from_tuples(sorted(set().union(*indices)), names=prompts.names)
    sides = [ratios.leave_one_out(*_arrays(windows, prompts)) for windows in (arm, base) if windows]
    return pd.Series(sides[0] - sum(sides[1:]), index=prompts)


def _arrays(windows: Sequence[pd.DataFrame], prompts: pd.Index) -> np.ndarray:
    """[2, windows, prompts]: tokens, and seconds; 0 where a window lacks a prompt."""
    if all(window.index.is_(prompts) for window in windows):
        return np.stack([window.to_numpy().T for window in windows], axis=1)
    place = {name: number for number, name in enumerate(prompts)}  # pandas would take milliseconds a window
    sums = np.zeros((2, len(windows), len(prompts)))
    for number, window in enumerate(windows):
        sums[:, number, [place[name] for name in window.index]] = window.to_numpy().T
    return sums


@once
def best_k(runs: RunSet, by: tuple[str, ...] = ("load",)) -> pd.DataFrame:
    """Each method at its own best K, per load (add "domain" to `by` for one per domain).

    The rows of `speedups` whose arm has the highest geometric mean speed-up over its group,
    that mean as `group_speedup`, and from how many arms it was picked as `arms`. Domains count once each
    (macro); only arms measured in as many cells as the fullest one compete. The interval is that of one arm:
    it does not know that this arm was picked, so close K are a tie.

    Raises:
        RecordError: if records of two plans are mixed; see `across_domains`.
    """
    table = speedups(runs)
    if table.empty:
        return table
    table = table[table["method"] != "baseline"]
    group = [*(name for name in NAMES if name not in ("load", "domain")), *by, "method"]
    means = _macro(table, [*group, "arm"]).rename(columns={"speedup": "group_speedup"})
    means = _fullest(means, group).copy()
    means["arms"] = means.groupby(group)["arm"].transform("size")
    best = means.loc[means.groupby(group, sort=False)["group_speedup"].idxmax()]
    return table.merge(best[[*group, "arm", "group_speedup", "arms"]], on=[*group, "arm"])


def fastest(best: pd.DataFrame) -> pd.DataFrame:
    """Rows of the fastest method at each load and domain, from `best_k` by load and domain."""
    return best.loc[best.groupby(["load", "domain"], sort=False)["speedup"].idxmax()]


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


def _fullest(means: pd.DataFrame, group: list[str]) -> pd.DataFrame:
    """Rows of as many cells as the fullest of their group has: a mean of fewer is one of other cells."""
    return means[means["cells"] == means.groupby(group)["cells"].transform("max")]


def best_over_domains(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row of `across_domains` per load: the arm, baselines aside, that is fastest over the domains.

    Only arms measured on as many domains as the fullest one compete.
    `estimate` is its mean over these domains: its interval covers restarts and prompts, the domains are held
    fixed.
    """
    table = speedups(runs)
    table = table[table["method"] != "baseline"]
    means = _fullest(across_domains(table), ["load"])
    best = means.loc[means.groupby("load", sort=False)["speedup"].idxmax()] if len(means) else means
    cells = [table[(table["load"] == row.load) & (table["arm"] == row.arm)] for row in best.itertuples()]
    return best.assign(estimate=[over_domains(own) for own in cells])


def over_domains(cells: pd.DataFrame) -> Estimate:
    """The geometric mean of some rows of `speedups`, one arm's; no interval if no restart has all."""
    ratio = PairedRatios.mean(list(cells["paired"]))
    if len(ratio.by_restart):
        return ratio.estimate()
    value = float(np.exp(np.log(cells["speedup"].astype(float)).mean()))
    return Estimate(value=value, low=None, high=None, n=0, unit_of_n="restarts", method="none")


def past_training(table: pd.DataFrame, depths: Mapping[str, int]) -> pd.DataFrame:
    """What a draft gains by more tokens than it was trained to give: its speed over that at its depth.

    `table` is of `speedups`, of a plan that measures both in the same rounds; `depths` has by method the
    draft tokens a step that it was trained to give. Columns: PAST_TRAINING, for each load and each deeper
    arm; `estimate` is the ratio over the geometric mean of the domains, paired by restart.
    """
    rows = []
    for (load, method), cells in table.groupby(["load", "method"], sort=False):
        by_k = cells.groupby("num_speculative_tokens", sort=True)
        each = {k: PairedRatios.mean(list(own["paired"])) for k, own in by_k}
        depth = depths.get(method)
        for k, speeds in each.items() if depth in each else ():
            ratio = speeds.over(each[depth])
            if k > depth and len(ratio.by_restart):
                rows.append(
                    {"load": load, "method": method, "depth": depth, "num_speculative_tokens": k,
                     "estimate": ratio.estimate()}
                )  # fmt: skip
    return summaries.frame(rows, PAST_TRAINING)


def beside_loops(runs: Iterable[RunRecord], chosen: pd.DataFrame) -> pd.DataFrame:
    """The decoding speed-up of chosen rows of `speedups`, with all answers and without those that loop.

    Columns: BESIDE_LOOPS: three shares of `summaries.loops`, and two estimates, of which `without` is None
    where all answers of an arm loop.
    """
    runs = RunSet.of(runs)
    speeds: dict[str, Speed] = {
        "every": "decode_tokens_per_s", "without": "decode_tokens_per_s_without_loops",
    }  # fmt: skip
    ratios_of = {
        name: speedups(runs, speed=speed).set_index([*CELL, "arm"])["estimate"]
        for name, speed in speeds.items()
    }
    ends = summaries.loops(runs).set_index(["load", "domain"])
    rows = []
    for _, row in chosen.iterrows():
        where, shares = tuple(row[[*CELL, "arm"]]), ends.loc[(row["load"], row["domain"])]
        both = {name: estimates.get(where) for name, estimates in ratios_of.items()}
        head = {name: row[name] for name in ("load", "domain", "label")}
        rows.append(head | shares[["capped", "loops", "loop_tokens"]].to_dict() | both)
    return summaries.frame(rows, BESIDE_LOOPS)


def replicated(best: pd.Series, shown: Iterable[RunRecord], recorded: Iterable[RunRecord]) -> pd.DataFrame:
    """Rows of `speedups` that other campaigns measured too: those of the arm, load, domain and weights of
    `best`, in `recorded` but not in `shown`.

    Their precision may be another: a machine of another kind has the one that is fast there.
    """
    runs = {run.run_id: run for run in shown}
    weights: dict[str, str] = {}
    for run_id in best["records"]:
        weights |= runs[run_id].provenance.weights_sha256
    same = [
        run for run in recorded
        if run.run_id not in runs and run.point.load.label == best["load"]
        and run.point.traffic.domain == best["domain"]
        and run.provenance.weights_sha256.items() <= weights.items()
    ]  # fmt: skip
    table = speedups(same)
    return table[table["label"] == best["label"]]


def apart_s(runs: Iterable[RunRecord]) -> list[float]:
    """Seconds from each arm with speculation to the nearest baseline of its round, from start to start."""
    starts: dict[tuple[str, str, bool], list[datetime]] = {}
    for run in RunSet.of(runs):
        turn = run.round.id, run.point.cell_key, run.point.speculation is None
        starts.setdefault(turn, []).append(datetime.fromisoformat(run.started_at))
    return [
        min(abs((arm - base).total_seconds()) for base in starts[turn, cell, True])
        for (turn, cell, is_base), arms in starts.items() if not is_base and (turn, cell, True) in starts
        for arm in arms
    ]  # fmt: skip
