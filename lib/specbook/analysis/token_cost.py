"""What measured tokens cost: records and a price -> rates under an SLO, bills and savings; and what a bill
depends on, one assumption at a time.

The rates are measured; what is made of them with a price is `computed`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import theilslopes

from specbook import records
from specbook.analysis import latency, speedup, summaries
from specbook.analysis.speedup import Answered, PairedRatios
from specbook.config import prompt_files
from specbook.config.chapter import CostPlan, Objective
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import cost, percentiles
from specbook.stats.cost import Bar
from specbook.stats.estimate import Estimate

BASELINE = "no speculation"
SPECULATING = "speculation"


def rates(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per batch and arm, all domains together: what it serves, and its slowest requests.

    A restart's rate is its tokens over its seconds, domain after domain, so that each domain counts with the
    requests that were sent. Columns: load, concurrency, arm, method, label, num_speculative_tokens,
    output (`Estimate`, tokens/s), speed (its value), by_round (tokens/s by restart and round), by_prompt (see
    `PairedRatios`), records (their ids), kind (BASELINE or SPECULATING), input_tokens_per_s, ttft_p99_s,
    tpot_p99_s, n (distinct prompts), enough (prompts for a p99, and no late first chunks that decide it).
    """
    closed = RunSet.of(runs).closed
    needed = ["load", "arm", "restart", "prompt", "late", "ttft_s", "tpot_s"]
    pooled, rows = latency.answered(closed)[needed], []
    answered = speedup.answered(closed, "output_tokens_per_s")
    names = ("concurrency", "method", "label", "num_speculative_tokens")
    for (load, arm), cell in windows(closed).groupby(["load", "arm"], sort=False):
        asked = pooled[(pooled["load"] == load) & (pooled["arm"] == arm)]
        head = {name: cell[name].iloc[0] for name in names}
        kind = BASELINE if head["method"] == "baseline" else SPECULATING
        rows.append(
            {"load": load, "arm": arm, "kind": kind, **head, **_rate(cell, answered), **_slowest(asked)}
        )
    return pd.DataFrame(rows)


def windows(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """`summaries.throughput`, with `input_tokens` and `output_tokens` of each window and the `seconds` they
    take at its speed: with every slot taken, where the record has such a window.
    """
    runs = RunSet.of(runs)
    got = [run.measurement for run in runs if run.measurement is not None]
    table = summaries.throughput(runs).assign(
        input_tokens=[one.server.prompt_tokens for one in got],
        output_tokens=[one.throughput.output_tokens for one in got],
    )
    return table.assign(seconds=table["output_tokens"] / table["output_tokens_per_s"])


def _rate(cell: pd.DataFrame, answered: Answered) -> dict[str, Any]:
    every = cell["domain"].nunique()
    sums = cell.groupby(["restart", "round"]).agg(
        domains=("domain", "nunique"), runs=("run_id", list), read=("input_tokens", "sum"),
        written=("output_tokens", "sum"), seconds=("seconds", "sum"),
    )  # fmt: skip
    whole = sums[sums["domains"] == every]  # a round that lacks a domain has another mix
    speeds = whole["written"] / whole["seconds"]
    changes = speedup.by_prompt([pd.concat([answered[run_id] for run_id in runs]) for runs in whole["runs"]])
    estimate = PairedRatios(_by_restart(speeds), changes).estimate()
    return {
        "output": estimate,
        "speed": estimate.value,
        "by_round": speeds,
        "by_prompt": changes,
        "records": tuple(cell["run_id"]),
        "input_tokens_per_s": float(whole["read"].sum() / whole["seconds"].sum()),
    }


def _by_restart(speeds: pd.Series) -> pd.Series:
    """Geometric mean of each restart's rounds."""
    return np.exp(np.log(speeds).groupby("restart").mean())


def _slowest(asked: pd.DataFrame) -> dict[str, Any]:
    clocks = (latency.requests(asked, name) for name in ("ttft_s", "tpot_s"))
    ttft, tpot = (percentiles.percentile(clock, 0.99, interval=False) for clock in clocks)
    n = min(ttft.n, tpot.n)
    enough = percentiles.enough_for(0.99, n) and not latency.decided("ttft_s", 0.99, asked)
    return {"ttft_p99_s": ttft.value, "tpot_p99_s": tpot.value, "n": n, "enough": enough}


def best_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `rates`: per batch the fastest arm without and the fastest with speculation."""
    best = table.loc[table.groupby(["load", "kind"], sort=False)["speed"].idxmax()]
    return best.sort_values(["concurrency", "kind"], ignore_index=True)


def bills(table: pd.DataFrame, plan: CostPlan) -> pd.DataFrame:
    """Rows of `rates` with dollars per million output tokens: `by_use` and `by_reservation` (`Estimate`s)."""
    hourly = plan.hourly()
    return table.assign(
        by_use=[cost.interval(rate, hourly) for rate in table["output"]],
        by_reservation=[cost.interval(rate, hourly, plan.utilisation) for rate in table["output"]],
    )


def keeps(table: pd.DataFrame, slo: Objective) -> pd.Series:
    """Whether both p99 of each row of `rates` or `bills` are within an objective."""
    return (table["ttft_p99_s"] <= slo.ttft_s) & (table["tpot_p99_s"] <= slo.tpot_s)


def goodput(table: pd.DataFrame, slos: Mapping[str, Objective]) -> pd.DataFrame:
    """Rows of `rates` or `bills`: per objective and kind that of the highest rate of which both p99 keep it.

    A kind that never does has no row. Where `enough` is False, its p99 stand on too few prompts: mark them.
    Columns: those of the table, and slo.
    """
    within = [table[keeps(table, slo)].assign(slo=name) for name, slo in slos.items()]
    candidates = pd.concat(within, ignore_index=True)
    best = candidates.loc[candidates.groupby(["slo", "kind"])["speed"].idxmax()]
    return best.assign(place=best["slo"].map(list(slos).index)).sort_values(
        ["place", "kind"], ignore_index=True
    )


def base_case(good: pd.DataFrame, table: pd.DataFrame, slos: Mapping[str, Objective]) -> pd.Series:
    """Row of the fastest rate that keeps the strictest objective (`goodput`), else the fastest of `bills`."""
    strict = good[good["slo"] == next(iter(slos))]
    among = table if strict.empty else strict
    return among.loc[among["speed"].idxmax()]


def dearer(good: pd.DataFrame) -> Estimate | None:
    """Cost with speculation over cost without, paired by round, from one objective's `goodput`.

    None where one of the two is missing, or they share no round.
    """
    rows = {row.kind: row for row in good.itertuples()}
    if set(rows) != {BASELINE, SPECULATING}:
        return None
    sides = rows[BASELINE], rows[SPECULATING]
    both = pd.concat([side.by_round for side in sides], axis=1, join="inner")
    if both.empty:
        return None
    base, speculating = (
        PairedRatios(_by_restart(both.iloc[:, place]), side.by_prompt) for place, side in enumerate(sides)
    )
    return base.over(speculating).estimate()


def splits(table: pd.DataFrame, runs: Iterable[RunRecord], plan: CostPlan) -> pd.DataFrame:
    """Rows of `best_arms` with dollars per million input and output tokens, which together pay for busy time.

    What one more prompt token takes to read is the slope of TTFT over the prompt's length, among requests
    that came one at a time without speculation. At larger batches prompts are read beside other work: the
    share of the time that they take, `input_share`, is an estimate there. No rows where that slope is
    unknown: all prompts are of one length, or it is lost in TTFT's noise, or there is no baseline.
    """
    second = _reading_s_per_token(runs)
    if second is None:
        return table[:0].assign(input_usd_per_million=[], output_usd_per_million=[], input_share=[])
    shares = [min(second * rate, 0.99) for rate in table["input_tokens_per_s"]]
    dollars = [
        cost.split_usd_per_million_tokens(rate, output.value, plan.hourly(), share)
        for rate, output, share in zip(table["input_tokens_per_s"], table["output"], shares, strict=True)
    ]
    return pd.concat([table, pd.DataFrame(dollars, index=table.index).assign(input_share=shares)], axis=1)


def _reading_s_per_token(runs: Iterable[RunRecord]) -> float | None:
    base = RunSet.of(runs).closed.baselines
    if not base:
        return None
    first = min(base, key=lambda run: (run.point.load.concurrency, run.point.target.execution)).point
    alike = [run for run in base if run.title == f"{first.arm}, {first.load.label}"]
    asked = summaries.pooled_requests(alike)
    if asked["input_tokens"].nunique() < 2:
        return None
    slope = float(theilslopes(asked["ttft_s"], asked["input_tokens"]).slope)  # a few outliers weigh little
    return slope if slope > 0 else None


def savings(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Each batch and domain at its own best K: the share of the bill that is saved, below 0 a cost.

    Columns: those of `speedup.best_k`, with `saving` (`Estimate`), saved, saved_low, saved_high.
    """
    table = speedup.best_k(RunSet.of(runs).closed, by=("load", "domain"))
    saved = [cost.saving(estimate) for estimate in table["estimate"]]
    ends = {"saved": "value", "saved_low": "low", "saved_high": "high"}
    columns = {name: [getattr(one, end) for one in saved] for name, end in ends.items()}
    return table.assign(saving=saved, **columns).astype(dict.fromkeys(ends, float))


def characters(runs: Iterable[RunRecord]) -> dict[str, float]:
    """Characters and tokens of everything that was asked and answered: what other tokenizers would count.

    Keys: input_characters, output_characters, input_tokens, output_tokens, guessed_characters. The chat
    template is in the tokens and not in the characters. A prompt that is in its file no more counts as many
    characters a token as the answers of its window have: these of input_characters are guessed_characters.
    """
    sides = [f"{side}_{unit}" for unit in ("characters", "tokens") for side in ("input", "output")]
    total = dict.fromkeys((*sides, "guessed_characters"), 0.0)
    lengths: dict[Any, dict[str, int]] = {}
    for run in RunSet.of(runs).closed:
        file = run.point.traffic.file()
        if file not in lengths:
            lengths[file] = {
                one.id: sum(len(turn["content"] or "") for turn in one.turns())
                for one in prompt_files.load(file)
            }
        asked = records.requests(run)
        written = int(asked["text"].str.len().sum())
        guessed = asked["input_tokens"] * (written / asked["output_tokens"].sum())
        in_file = asked["prompt_id"].map(lengths[file])
        total["input_characters"] += float(in_file.fillna(guessed).sum())
        total["guessed_characters"] += float(guessed[in_file.isna()].sum())
        total["output_characters"] += written
        total["input_tokens"] += int(asked["input_tokens"].sum())
        total["output_tokens"] += int(asked["output_tokens"].sum())
    return total


def bars(runs: Iterable[RunRecord], chosen: pd.Series, plan: CostPlan) -> list[Bar]:
    """What the bill of the chosen row of `bills` depends on, by reservation: the widest bar first.

    Each bar changes one thing: the utilisation, the way to buy the machine, the traffic, the batch, whether
    one speculates, and what the measurement itself leaves open.
    """
    every = windows(RunSet.of(runs).closed)
    at_load, of_method = (every[every[name] == chosen[name]] for name in ("load", "method"))
    of_arm, rate = at_load[at_load["arm"] == chosen["arm"]], chosen["output"]
    own = float(of_arm["output_tokens"].sum() / of_arm["seconds"].sum())
    known = rate.low is not None and rate.high is not None
    factors = {
        "traffic": _relative(_speeds(of_arm, "domain"), own),
        # the fastest arm of the chosen method at each batch, and of each method at the chosen batch
        "batch": _relative(_speeds(of_method, "load", "arm").groupby("load").max(), own),
        "speculation": _relative(_speeds(at_load, "method", "arm").groupby("method").max(), own),
        "measurement": (rate.low / rate.value, rate.high / rate.value) if known else (1.0, 1.0),
    }
    paid = [price.usd_per_hour for price in plan.listed()] or [plan.hourly()]
    ranges = {"utilisation": plan.utilisation_range, "price": (min(paid), max(paid)), **factors}
    base = {"utilisation": plan.utilisation, "price": plan.hourly(), **dict.fromkeys(factors, 1.0)}

    def bill(utilisation: float, price: float, **speed: float) -> float:
        tokens_per_s = rate.value * float(np.prod(list(speed.values())))
        return cost.usd_per_million_tokens(tokens_per_s, price, utilisation)

    return cost.tornado(bill, base, {name: ends for name, ends in ranges.items() if ends[0] < ends[1]})


def by_utilisation(tokens_per_s: float, usd_per_hour: float) -> pd.DataFrame:
    """Dollars per million output tokens, `usd_per_million`, at each `utilisation` from 0.1 % to 100 %."""
    used = np.geomspace(0.001, 1, 100)
    paid = [cost.usd_per_million_tokens(tokens_per_s, usd_per_hour, one) for one in used]
    return pd.DataFrame({"utilisation": used, "usd_per_million": paid})


def _relative(speeds: pd.Series, own: float) -> tuple[float, float]:
    return min(1.0, float(speeds.min() / own)), max(1.0, float(speeds.max() / own))


def _speeds(table: pd.DataFrame, *by: str) -> pd.Series:
    """Tokens per second of each group, over all its windows."""
    return table.groupby(list(by))[["output_tokens", "seconds"]].sum().eval("output_tokens / seconds")
