"""The sentences that answer a chapter's question, written from its tables: Markdown, never typed by hand."""

from collections.abc import Iterable

import pandas as pd

from specbook import acceptance, comparisons, serving, summaries
from specbook.records import RunRecord


def baseline(runs: Iterable[RunRecord]) -> str:
    """What the server gives without speculation, in one sentence."""
    runs = serving.closed(runs)
    table = summaries.throughput(runs)
    means = table.groupby(["arm", "concurrency"])["output_tokens_per_s"].median().unstack()
    arm, first, last = means[means.columns[0]].idxmax(), means.columns[0], means.columns[-1]
    p50 = _tpot_ms(runs, arm, first)
    return (
        f"**Answer.** Without speculation this server ({arm.removeprefix('baseline ').strip('()')}) writes "
        f"**{means.loc[arm, first]:.0f} tokens/s** for one request at a time, {p50:.1f} ms a token, and "
        f"**{means.loc[arm, last]:.0f} tokens/s** for {last:g} at once: {last / first:g} times the "
        f"requests bring {means.loc[arm, last] / means.loc[arm, first]:.1f} times the tokens "
        "(medians over domains and restarts)."
    )


def _tpot_ms(runs: list[RunRecord], arm: str, batch: float) -> float:
    table = summaries.latency_table(runs, (0.5,), by=("concurrency", "arm"))
    chosen = table[(table["metric"] == "tpot_s") & (table["arm"] == arm) & (table["concurrency"] == batch)]
    return 1e3 * float(chosen["value"].iloc[0])


def speculation(table: pd.DataFrame) -> str:
    """Of `comparisons.best_k` by load and domain: the largest win, and the largest loss beside it."""
    best, worst = table.loc[table["speedup"].idxmax()], table.loc[table["speedup"].idxmin()]
    wins, cells = int((table["low"].fillna(table["speedup"]) > 1).sum()), len(table)
    return (
        f"**Answer.** At its best K, {best['method']} runs at {_times(best)} the speed of the best baseline "
        f"on {best['domain']} at {best['load']}, and at {_times(worst)} on {worst['domain']} at "
        f"{worst['load']}; it is faster in {wins} of {cells} combinations of traffic and batch."
    )


def _times(row: pd.Series) -> str:
    """`**2.31×** (130 → 300 tokens/s, 95 % interval 2.20 to 2.44, n=5 restarts)`."""
    found = row["estimate"]
    interval = "no interval" if found.low is None else f"95 % interval {found.low:.2f} to {found.high:.2f}"
    speeds = f"{row['baseline_tokens_per_s']:.0f} → {row['tokens_per_s']:.0f} tokens/s"
    return f"**{found.value:.2f}×** ({speeds}, {interval}, {found.format().rsplit(', ', 1)[1]})"


def averages(table: pd.DataFrame) -> str:
    """Of `acceptance.by_domain` at one K and load: micro beside macro."""
    drafts, accepted = table["num_drafts"].sum(), table["num_accepted_tokens"].sum()
    micro, macro = 1 + accepted / drafts, acceptance.macro(list(table["length"]))
    return (
        f"Over all tokens (micro) the acceptance length is {micro:.2f} tokens/step; with each domain counted "
        f"once (macro) {macro:.2f}; the domains themselves run from {table['length'].min():.2f} to "
        f"{table['length'].max():.2f}."
    )


def losses(table: pd.DataFrame) -> str:
    """Of `comparisons.speedups`: how many arms lose, and the worst of them."""
    lost = table[table["high"].fillna(table["speedup"]) < 1]
    if lost.empty:
        return f"No arm was slower than its baseline beyond its interval, of {len(table)} measured here."
    worst = lost.loc[lost["speedup"].idxmin()]
    return (
        f"{len(lost)} of {len(table)} arms were slower than the best baseline, beyond their interval. The "
        f"worst: {worst['arm']} on {worst['domain']} at {worst['load']}, {_times(worst)}."
    )


def advice(runs: Iterable[RunRecord]) -> str:
    """One line per load: the K whose mean over domains is best, or none."""
    lines = []
    for _, top in comparisons.best_over_domains(runs).iterrows():
        choice = top["arm"] if top["speedup"] > 1 else f"no speculation; the least bad is {top['arm']}"
        spread = f"{top['speedup']:.2f}× over the domains (from {top['worst']:.2f}× to {top['best']:.2f}×)"
        lines.append(f"- **{top['load']}**: {choice}, {spread}")
    return "\n".join(lines)
