"""What the figures of a server with speculation show, in words."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from specbook.analysis import tail as tails
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text.phrases import count, ends, listed, moved, of, percent
from specbook.stats.estimate import Estimate
from specbook.stats.percentiles import enough_for


def turns(runs: Iterable[RunRecord]) -> str:
    """How far apart the arms of a round were measured, from start to start."""
    starts: dict[tuple[str, str, bool], list[datetime]] = {}
    for run in RunSet.of(runs):
        turn = run.round.id, run.point.cell_key, run.point.speculation is None
        starts.setdefault(turn, []).append(datetime.fromisoformat(run.started_at))
    apart = [
        min(abs((arm - base).total_seconds()) for base in starts[turn, cell, True])
        for (turn, cell, is_base), arms in starts.items() if not is_base and (turn, cell, True) in starts
        for arm in arms
    ]  # fmt: skip
    if not apart:
        return "No arm with speculation shares a round with a baseline."
    return (
        "From the start of an arm with speculation to that of the nearest baseline of its round it is "
        f"{_duration(np.median(apart))} in the median and {_duration(max(apart))} at most. What the machine "
        "did in between is in the ratio."
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def trend(table: pd.DataFrame) -> str:
    """Sentences on how many points lose, and what the largest batch changes.

    Made from `speedup.best_k` by load and domain.
    """
    if table.empty:
        return ""
    below = int((table["speedup"] < 1).sum())
    told = [f"{below} of {count(len(table), 'point')} {'lies' if below == 1 else 'lie'} below the line."]
    loads = list(dict.fromkeys(table["load"]))
    if len(loads) < 2:
        return " ".join([*told, f"Only {loads[0]} was measured, so there is no trend to see."])
    for method, part in table.groupby("method", sort=False):
        told.append(_first_and_last(str(method), part, loads[0], loads[-1]))
    return " ".join(told)


def _first_and_last(method: str, table: pd.DataFrame, first: str, last: str) -> str:
    wide = (
        table.pivot(index="domain", columns="load", values="estimate").reindex(columns=[first, last]).dropna()
    )
    each: dict[str, list[str]] = {}
    for domain, pair in wide.iterrows():
        each.setdefault(_compared(pair[first], pair[last]), []).append(str(domain))
    said = [f"{words} for {listed(domains)}" for words, domains in each.items()]
    if not said:
        return f"No domain has {method} at both {first} and {last}."
    return f"The speed-up of {method} at {last}, held against that at {first}, is {'; '.join(said)}."


def _compared(first: Estimate, last: Estimate) -> str:
    if None in (first.low, first.high, last.low, last.high):
        return "without an interval and so not comparable"
    if last.high < first.low:
        return "smaller"
    return "larger" if last.low > first.high else "within the intervals the same"


def positions(table: pd.DataFrame) -> str:
    """Sentence on conditional acceptance at both ends of a draft.

    Made from `acceptance.by_domain` at one K and load.
    """
    if table.empty:
        return "Nothing was drafted, so no position was accepted or refused."
    k = int(table["num_speculative_tokens"].iloc[0])
    if k == 1:
        return "With K = 1 there is one position, and nothing to see of depth."
    each = [
        f"{row.domain} {row.conditional[0]:.2f} and {row.conditional[-1]:.2f}"
        for row in table.itertuples() if np.isfinite(row.conditional[[0, -1]]).all()
    ]  # fmt: skip
    if not each:
        return f"No guess was ever accepted as far as position {k}."
    return f"Conditional acceptance at the first position and at position {k}: {listed(each)}."


def prices(lengths: pd.DataFrame, costs: pd.DataFrame) -> str:
    """List of a step's price and yield at the largest K.

    Made from `acceptance.by_domain` and `prediction.step_costs`.
    """
    if costs.empty or lengths.empty:
        return "No step with speculation can be held against one without, so its price here is not known."
    both = lengths.merge(costs, on=["load", "domain", "method", "num_speculative_tokens"])
    deepest = both[both["num_speculative_tokens"] == both["num_speculative_tokens"].max()]
    lines = []
    for (load, method), cell in deepest.groupby(["load", "method"], sort=False):
        pays = int((cell["length"] > cell["cost"]).sum())
        lines.append(
            f"- **{load}**: a step of {method} K={cell['num_speculative_tokens'].iloc[0]} costs "
            f"{ends(list(cell['cost']))} steps of the baseline and yields {ends(list(cell['length']))} "
            f"tokens: more than it costs in {of(pays, len(cell), 'domain')}."
        )
    return "\n".join(lines)


def prediction(measured: pd.DataFrame, predicted: pd.DataFrame) -> str:
    """Sentences on how far `prediction.speedups` lies from the measured `speedup.speedups`."""
    both = measured.merge(predicted, on=["load", "domain", "method", "num_speculative_tokens"])
    if both.empty:
        return "Nothing could be predicted: a price or an acceptance is missing."
    ratio = both["predicted"].astype(float) / both["speedup"].astype(float)
    off = np.exp(np.abs(np.log(ratio))) - 1
    worst = both.loc[off.idxmax()]
    return (
        f"The prediction is off by {percent(off.median())} in the median and by {percent(off.max())} at most "
        f"(on {worst['domain']} at {worst['load']}, K={worst['num_speculative_tokens']}). It is too high in "
        f"{int((ratio > 1).sum())} of {count(len(both), 'point')}."
    )


def tail(table: pd.DataFrame) -> str:
    """List with a line per load: the median's change beside p99's, all domains together if several.

    Made from `tail.tails`.
    """
    if table.empty:
        return ""
    domain = tails.POOLED if (table["domain"] == tails.POOLED).any() else table["domain"].iloc[0]
    lines = []
    for load, cell in table[table["domain"] == domain].groupby("load", sort=False):
        found = {(row.metric, row.q): row for row in cell.itertuples()}
        names = dict.fromkeys(metric for metric, _ in found)
        told = [
            f"{name.removesuffix('_s').upper()} {_both(found[name, 0.5], found[name, 0.99])}"
            for name in names
        ]
        lines.append(f"- **{load}**, {domain}, {cell['label'].iloc[0]}: {'; '.join(told)}")
    return "\n".join(lines)


def _both(median: Any, p99: Any) -> str:
    if p99.enough:
        return f"{moved(median.estimate)} at the median, {moved(p99.estimate)} at p99"
    why = "late first chunks decide it" if enough_for(p99.q, p99.n) else "too few prompts"
    return f"{moved(median.estimate)} at the median, p99 not told ({why})"


def lengths(requests: pd.DataFrame, arms: Sequence[str]) -> str:
    """Sentence on the mean answer length in two arms, and how far their distribution curves lie apart.

    Made from `summaries.pooled_requests`.
    """
    told = []
    for domain, cell in requests.groupby("domain", sort=False):
        pair = [cell.loc[cell["arm"] == arm, "output_tokens"] for arm in arms]
        if len(pair) == 2 and all(map(len, pair)):
            gap = stats.ks_2samp(*pair).statistic
            told.append(
                f"{domain} {pair[0].mean():.1f} and {pair[1].mean():.1f} tokens ({percent(gap, 1)} apart)"
            )
    return f"The mean answer of {listed(arms)}: {'; '.join(told)}." if told else ""
