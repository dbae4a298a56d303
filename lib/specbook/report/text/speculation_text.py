"""What the figures of a server with speculation show, in words."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from specbook.analysis import replication
from specbook.analysis import tail as tails
from specbook.analysis.intervals import compare
from specbook.analysis.prediction import errors
from specbook.records.run import RunRecord
from specbook.report.text import change, count, percent
from specbook.stats.percentiles import enough_for
from specbook.suggestions import listed

CHANGES = {
    "below": "smaller", "above": "larger", "within": "within the intervals the same",
    None: "without an interval and so not comparable",
}  # fmt: skip


def turns(runs: Iterable[RunRecord]) -> str:
    """How far apart the arms of a round were measured, from start to start."""
    apart_s = replication.apart_s(runs)
    if not apart_s:
        return "No arm with speculation shares a round with a baseline."
    return (
        "From the start of an arm with speculation to that of the nearest baseline of its round it is "
        f"{_duration(np.median(apart_s))} in the median and {_duration(max(apart_s))} at most. What the "
        "machine did in between is in the ratio."
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
    sentences = [f"{below} of {count(len(table), 'point')} {'lies' if below == 1 else 'lie'} below the line."]
    loads = list(dict.fromkeys(table["load"]))
    if len(loads) < 2:
        sentences.append(f"Only {loads[0]} was measured, so there is no trend to see.")
    else:
        parts = table.groupby("method", sort=False)
        sentences += [_first_and_last(str(method), part, loads[0], loads[-1]) for method, part in parts]
    return " ".join(sentences)


def _first_and_last(method: str, table: pd.DataFrame, first: str, last: str) -> str:
    wide = table.pivot(index="domain", columns="load", values="estimate").reindex(columns=[first, last])
    each: dict[str, list[str]] = {}
    for domain, pair in wide.dropna().iterrows():
        each.setdefault(CHANGES[compare(pair[last], pair[first])], []).append(str(domain))
    if not each:
        return f"No domain has {method} at both {first} and {last}."
    changes = "; ".join(f"{words} for {listed(domains)}" for words, domains in each.items())
    return f"The speed-up of {method} at {last}, held against that at {first}, is {changes}."


def prediction(measured: pd.DataFrame, predicted: pd.DataFrame) -> str:
    """Sentences on how far `prediction.speedups` lies from the measured `speedup.speedups`."""
    table = errors(measured, predicted)
    if table.empty:
        return "Nothing could be predicted: a price or an acceptance is missing."
    worst = table.loc[table["error"].idxmax()]
    return (
        f"The prediction is off by {percent(table['error'].median())} in the median and by "
        f"{percent(worst['error'])} at most (on {worst['domain']} at {worst['load']}, "
        f"K={worst['num_speculative_tokens']}). It is too high in {int((table['ratio'] > 1).sum())} of "
        f"{count(len(table), 'point')}."
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
        rows = {(row.metric, row.q): row for row in cell.itertuples()}
        changes = [
            f"{name.removesuffix('_s').upper()} {_changes(rows[name, 0.5], rows[name, 0.99])}"
            for name in dict.fromkeys(metric for metric, _ in rows)
        ]
        lines.append(f"- **{load}**, {domain}, {cell['label'].iloc[0]}: {'; '.join(changes)}")
    return "\n".join(lines)


def _changes(median: Any, p99: Any) -> str:
    if p99.enough:
        return f"{change(median.estimate)} at the median, {change(p99.estimate)} at p99"
    why = "late first chunks decide it" if enough_for(p99.q, p99.n) else "too few prompts"
    return f"{change(median.estimate)} at the median, p99 not told ({why})"
