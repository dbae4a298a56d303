"""The sentences that answer a chapter's question, written from its tables: Markdown, never typed by hand."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from specbook.analysis import acceptance, speedup
from specbook.analysis.intervals import side
from specbook.records.lossless import LosslessRecord, fullest
from specbook.records.run import RunRecord
from specbook.report import tables
from specbook.report.text import interval
from specbook.suggestions import listed

NO_PAIR = "No speed-up can be told: no round here has both a baseline and an arm with speculation."


def speculation(table: pd.DataFrame, single: pd.DataFrame | None = None) -> str:
    """Answer with the largest win, and the largest loss beside it, from `speedup.best_k` by load and domain.

    `single`: of `speedup.best_over_domains`, the one setting for all domains that stands beside.
    """
    if table.empty:
        return NO_PAIR
    best, worst = table.loc[table["speedup"].idxmax()], table.loc[table["speedup"].idxmin()]
    if table["method"].nunique() > 1:
        suited = speedup.fastest(table)
        swept = _swept(worst, "even at")
        return (
            f"**Answer.** Where it helps most, {best['label']} runs at {_times(best)} the speed of the best "
            f"baseline, on {best['domain']} at {best['load']}; where it hurts most {swept}, "
            f"{worst['label']} at {_times(worst)}, on {worst['domain']} at {worst['load']}. With the method "
            f"that suits each, picked afterwards, the median of the kinds of traffic is {_medians(suited)}; "
            f"{_wins(suited)} of {len(suited)} combinations of traffic and batch.{_single(single)}"
        )
    method = f"{_swept(best, 'At')}, {best['method']}"
    if len(table) == 1:
        return (
            f"**Answer.** {method} runs at {_times(best)} the speed of the best "
            f"baseline on {best['domain']} at {best['load']}, the one combination that was measured."
        )
    return (
        f"**Answer.** {method} runs at {_times(best)} the speed of the best baseline "
        f"on {best['domain']} at {best['load']}, and at {_times(worst)} on {worst['domain']} at "
        f"{worst['load']}; {_wins(table)} of {len(table)} combinations of traffic and batch."
    )


def _swept(row: pd.Series, at: str) -> str:
    """`at its best K`, where there was a choice."""
    return f"{at} its best K" if row["arms"] > 1 else f"{at.split()[-1]} the one K measured"


def _single(best: pd.DataFrame | None) -> str:
    """What one setting for all traffic gives, load by load."""
    if best is None or best.empty:
        return ""
    each = [
        f"{row.estimate.span('×')} at {row.load} ({row.method} K={row.num_speculative_tokens})"
        for row in best.itertuples()
    ]
    return f" One setting for all traffic gives {listed(each)}, geometric means with 95 % intervals."


def _medians(table: pd.DataFrame) -> str:
    """`2.54× at batch 1, 1.60× at batch 8 and 1.40× at batch 32`."""
    return listed(
        f"{part['speedup'].median():.2f}× at {load}" for load, part in table.groupby("load", sort=False)
    )


def _wins(table: pd.DataFrame) -> str:
    """In how many it is faster: beyond the interval, or, where there is none, as it happened to come out."""
    if table["low"].isna().any():
        return (
            f"measured too seldom for an interval, it came out faster in {int((table['speedup'] > 1).sum())}"
        )
    return f"it is faster in {int((table['low'] > 1).sum())}"


def _times(row: pd.Series) -> str:
    """`**2.31×** (130 → 300 tokens/s, 95 % interval 2.20 to 2.44, n=5 restarts)`."""
    speeds = f"{row['baseline_tokens_per_s']:.0f} → {row['tokens_per_s']:.0f} tokens/s"
    return f"**{row['estimate'].value:.2f}×** ({speeds}, {interval(row['estimate'])})"


def averages(table: pd.DataFrame) -> str:
    """Sentence on the acceptance length, micro beside macro.

    Made from `acceptance.by_domain` at one K and load.
    """
    if table.empty:
        return "Nothing was drafted, so there is no acceptance to average."
    drafts, accepted = table["num_drafts"].sum(), table["num_accepted_tokens"].sum()
    micro, macro = 1 + accepted / drafts, acceptance.macro(list(table["length"]))
    if len(table) == 1:
        return f"The acceptance length is {micro:.2f} tokens/step: of one domain, so no average."
    return (
        f"Over all tokens (micro) the acceptance length is {micro:.2f} tokens/step; with each domain counted "
        f"once (macro) {macro:.2f}; the domains themselves run from {table['length'].min():.2f} to "
        f"{table['length'].max():.2f}."
    )


def losses(table: pd.DataFrame) -> str:
    """Sentences on how many arms lose, and the worst of them, from `speedup.speedups`."""
    if table.empty:
        return NO_PAIR
    if table["high"].isna().any():
        slower = int((table["speedup"] < 1).sum())
        return (
            f"{slower} of {len(table)} arms came out slower than the best baseline. They were measured too "
            "seldom for an interval, so this may be chance either way."
        )
    lost = table[table["high"] < 1]
    if lost.empty:
        return f"No arm was slower than its baseline beyond its interval, of {len(table)} measured here."
    worst = lost.loc[lost["speedup"].idxmin()]
    return (
        f"{len(lost)} of {len(table)} arms were slower than the best baseline, beyond their interval. The "
        f"worst: {worst['arm']} on {worst['domain']} at {worst['load']}, {_times(worst)}."
    )


def advice(runs: Iterable[RunRecord]) -> str:
    """One line per load: the arm whose mean over domains is best, if it is faster beyond its interval."""
    best = speedup.best_over_domains(runs)
    return "\n".join(_advised(top) for top in best.itertuples()) or NO_PAIR


def _advised(top: Any) -> str:
    span = f"over {top.cells} domains, from {top.worst:.2f}× to {top.best:.2f}×"
    speed = f"{top.speedup:.2f}× {span if top.cells > 1 else 'on its one domain'}"
    shown, doubt = side(top.estimate), "" if top.estimate.low is not None else ": it may be chance"
    faster = top.speedup > 1 if shown is None else shown == "above"
    choice = top.arm if faster else f"no speculation; the least bad is {top.arm}"
    if shown == "within":
        choice = f"a tie between no speculation and {top.arm}"
    return f"- **{top.load}**: {choice}, {speed} ({interval(top.estimate)}{doubt})"


def by_domain(table: pd.DataFrame) -> str:
    """Sentence that lists the domains at the first load, from most to least gained.

    Made from `speedup.best_k` by load and domain.
    """
    if table.empty:
        return NO_PAIR
    first = table[table["load"] == table["load"].iloc[0]].sort_values("speedup", ascending=False)
    gains = [f"{row.domain} ({row.speedup:.2f}×)" for row in first.itertuples()]
    if len(gains) == 1:
        return f"At {first['load'].iloc[0]}, {gains[0]} is the only domain that was measured."
    return f"At {first['load'].iloc[0]}, from most to least gained: {', '.join(gains)}."


def answers(table: pd.DataFrame) -> str:
    """Sentences on how many answers speculation left as they were, and on the controls.

    Made from `answers.shares` by load.
    """
    parts = dict(list(table.groupby("comparison")))
    if "speculation" not in parts:
        return "No answers can be compared: no arm with speculation shares a round and mode with a baseline."
    sentences = [_changed(parts["speculation"])]
    if "restart" in parts:
        sentences.append(
            f"A baseline that is started again repeats {_percents(parts['restart'])} of its own."
        )
    else:
        sentences.append("There is no control in the same execution mode: it takes a second restart.")
    if "mode" in parts:
        sentences.append(f"A baseline in another execution mode writes {_percents(parts['mode'])} the same.")
    return " ".join(sentences)


def _changed(drafted: pd.DataFrame) -> str:
    count, loads = drafted["pairs"].sum(), ", ".join(drafted["load"].unique())
    worst = min(drafted.itertuples(), key=lambda row: (row.estimate.value, row.estimate.low))
    share = worst.estimate
    interval = (
        f"95 % interval {tables.percent(share.low)} % to {tables.percent(share.high)} %, n={share.n} prompts"
    )
    if share.value == 1:
        part = f"None parts; the widest doubt is at {worst.load} ({interval})."
    else:
        part = f"{worst.arm} parts most often, at {worst.load}: {tables.percent(share.value)} % ({interval})."
    return (
        f"Of {count} stored answers with speculation, at {loads}, {_percents(drafted)} are those of the same "
        f"round's baseline, character for character. {part}"
    )


def _percents(table: pd.DataFrame) -> str:
    values = [share.value for share in table["estimate"]]
    return " % to ".join(dict.fromkeys([tables.percent(min(values)), tables.percent(max(values))])) + " %"


def checked(checks: Iterable[LosslessRecord]) -> str:
    """What the lossless checks showed, one sentence a precision; or that there is none."""
    return " ".join(map(_check, fullest(checks))) or (
        "There is no check of these weights and engine on this machine, so none is shown: `specbook run` "
        "makes those that the plan asks for."
    )


def _check(check: LosslessRecord) -> str:
    same, other, again = check.equality, check.control, check.repeat
    restarted = f", and {again.equal} of {again.n} after another start" if again else ""
    return (
        f"In {check.target.dtype} at batch {check.concurrency}, {same.equal} of {same.n} answers with "
        f"{check.speculation.label} are the baseline's, token for token; without speculation {other.equal} "
        f"of {other.n} were, in {check.control_execution} mode{restarted}."
    )
