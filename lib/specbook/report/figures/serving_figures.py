"""Figures of how a server serves: speed, latency, steps: tables -> Axes. Their numbers: see `style.sign`."""

import itertools
from collections.abc import Sequence

import pandas as pd
import seaborn
from matplotlib.axes import Axes

from specbook.analysis import steps, summaries
from specbook.report.figures import style
from specbook.report.figures.style import NO_PAIR, Reading, colour, look, marker, ordered, styled

METRICS = {
    "ttft_s": "TTFT: first token", "tpot_s": "TPOT: per token", "itl_s": "ITL: between chunks",
    "e2e_s": "E2E: whole answer",
}  # fmt: skip
ENDS = ("value", "low", "high")
BOUNDS = {"memory": ("#0072B2", "reading memory, at peak"), "compute": ("#009E73", "arithmetic, at peak")}
OF_A_STEP = ("#d9d9d9", *style.PALETTE)
"""A colour for each of nine parts: pale for the first, what passes between steps."""
UNKNOWN = "not split: a peak of this machine, or a size of the model, is unknown"


@styled
def throughput(table: pd.DataFrame) -> list[Axes]:
    """`summaries.throughput`: output tokens/s by batch with intervals, a panel per domain."""
    arms, means = list(dict.fromkeys(table["arm"])), summaries.over_restarts(table)
    axes = style.panel_for_each(ordered(table["domain"]), share_y=True)
    for domain, ax in axes.items():
        for arm in arms:
            cell = means[(means["domain"] == domain) & (means["arm"] == arm)]
            reading = Reading("{:.0f}", " tokens/s")
            style.with_interval(ax, cell, "concurrency", ENDS, reading, **look(arm, arms))
        style.batches(ax, table["concurrency"].dropna(), "batch")
    ax.set_ylim(bottom=0)  # shared, so it comes after all panels are drawn
    return style.finish(axes.values(), "output tokens/s, all sequences")


@styled
def latency(table: pd.DataFrame) -> list[Axes]:
    """`latency.table` by concurrency and arm, in ms with intervals, hollow where prompts are too few."""
    arms, ms = list(dict.fromkeys(table["arm"])), _in_ms(table)
    axes = style.panels(len(METRICS))
    for ax, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for arm in arms:
            hue = colour(arm, arms)
            for q, line in ((0.5, "-"), (0.99, "--")):
                cell = ms[(ms["metric"] == metric) & (ms["arm"] == arm) & (ms["q"] == q)]
                ax.plot(cell["concurrency"], cell["value"], line, color=hue, label=f"{arm} p{100 * q:g}")
                style.marked(ax, cell, "concurrency", ENDS, Reading("{:.1f}", " ms"), color=hue, marker="o")
        style.batches(ax, table["concurrency"], "batch")
        ax.set_title(title)
        ax.set_ylim(bottom=0)
    return style.finish(axes, "ms")


def _in_ms(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{name: 1e3 * table[name].astype(float) for name in ENDS})


@styled
def step_time(table: pd.DataFrame) -> Axes:
    """`steps.decode_steps`: the measured step in ms, split into what the roofline explains and overhead."""
    (ax,) = style.panels(1)
    names = [f"{row.execution}\nbatch {row.concurrency}" for row in table.itertuples()]
    least = 1e3 * table["least_s"].astype(float).fillna(0.0)
    for bound, (hue, text) in BOUNDS.items():
        chosen = (table["bound"] == bound).to_numpy()
        if chosen.any():
            ax.bar(chosen.nonzero()[0], least[chosen], color=hue, label=f"least possible: {text}")
    rest = 1e3 * table["step_s"] - least
    ax.bar(range(len(table)), rest, bottom=least, color="#d9d9d9", hatch="//", edgecolor="#888888",
           label="overhead: the rest" if table["least_s"].notna().all() else UNKNOWN)  # fmt: skip
    ax.set_xticks(range(len(table)), names, fontsize=8 if len(names) > 4 else 10)
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, 1e3 * table["step_s"].max() * 1.3)
    return style.finish([ax], "decode step, ms", 1)[0]


@style.or_words("No step was profiled yet.")
def step_parts(table: pd.DataFrame) -> Axes:
    """`analysis.steps.parts`: a bar an arm, in ms, cut into the parts of its step."""
    arms, names = (list(dict.fromkeys(table[name])) for name in ("arm", "part"))
    (ax,) = style.panels(1, height=1.6 + 0.6 * len(arms))
    ends = pd.Series(0.0, index=arms)
    for name, hue in zip(names, itertools.cycle(OF_A_STEP), strict=False):
        part = table[table["part"] == name].set_index("arm")["milliseconds"].reindex(arms).fillna(0.0)
        ax.barh(arms, part, left=ends, label=name, color=hue, edgecolor="white")
        ends += part
    ax.invert_yaxis()
    ax.set_xlabel("ms a step, one sequence")
    ax.grid(axis="y", visible=False)
    style.legend_above([ax], 4)
    return ax


@style.or_words("No Poisson arrivals are in these records.")
def poisson(table: pd.DataFrame) -> list[Axes]:
    """`latency.poisson` of one arm: served rate, latency and queue wait against the rate of arrivals."""
    axes = style.panels(3)
    for domain in ordered(table["domain"]):
        cell, hue = table[table["domain"] == domain].sort_values("rate_per_s"), colour(domain)
        axes[0].plot(cell["rate_per_s"], cell["served_per_s"], **look(domain))
        for name, line in (("e2e_p50", "-"), ("e2e_p99", "--")):
            axes[1].plot(cell["rate_per_s"], cell[f"{name}_s"], line, color=hue)
            ends = (f"{name}_s", f"{name}_low_s", f"{name}_high_s")
            shown = cell.assign(enough=cell[f"{name}_enough"], estimate=cell[f"{name}_estimate"])
            style.marked(axes[1], shown, "rate_per_s", ends, Reading("{:.2f}", " s"), color=hue, marker="o")
        axes[2].plot(cell["rate_per_s"], cell["queue_wait_s"], **look(domain))
    rates = table["rate_per_s"]
    axes[0].plot([rates.min(), rates.max()], [rates.min(), rates.max()], ":", color="black", label="keeps up")
    axes[0].set_yscale("log", base=2)
    labels = ("served, requests/s", "E2E, s (solid p50, dashed p99)", "mean queue wait, s")
    for ax, label in zip(axes, labels, strict=True):
        style.batches(ax, rates, "arrivals, requests/s")
        ax.set_title(label)
    axes[0].set_yticks(sorted(set(rates)), [f"{rate:g}" for rate in sorted(set(rates))])
    for ax in axes[1:]:
        ax.set_ylim(bottom=0)
    style.legend_above(axes, 5)
    return axes


@styled
def utilisation(table: pd.DataFrame) -> Axes:
    """`steps.utilisation`: how busy the processor (or the GPU) was, mean over domains and restarts."""
    (ax,) = style.panels(1, height=3.2)
    gpu, busy = table["gpu_utilisation"].notna().any(), steps.busy(table)
    arms = list(dict.fromkeys(table["arm"]))
    for arm in arms:
        mean, hue = busy[busy["arm"] == arm], colour(arm, arms)
        batches = mean["concurrency"]
        ax.plot(batches, mean["engine"], marker=marker(arm, arms), color=hue, label=f"engine, {arm}")
        if not gpu:
            ax.plot(batches, mean["client"], ":", color=hue, label=f"load generator, {arm}")
    style.batches(ax, table["concurrency"])
    ax.set_ylim(0, 105)
    return style.finish([ax], "% of the GPU's time" if gpu else "% of all cores", 2)[0]


@style.or_words(NO_PAIR)
def tail(table: pd.DataFrame) -> list[Axes]:
    """`latency.tails`, one arm per load: p99 minus the baseline's, in ms, beside it the median's change as a
    dash, both with intervals. Hollow: few prompts, or late first chunks.
    """
    titles = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}
    there, loads, axes = style.placed(_in_ms(table)), list(dict.fromkeys(table["load"])), style.panels(3)
    reading = Reading("{:+.1f}", " ms")
    dash = {"marker": "_", "linestyle": "none", "elinewidth": 0.9, "markeredgewidth": 2}
    for ax, (metric, title) in zip(axes, titles.items(), strict=True):
        for domain in ordered(table["domain"]):
            cell = there[(there["metric"] == metric) & (there["domain"] == domain)]
            hue, sign = colour(domain), marker(domain)
            ax.plot([], [], sign, color=hue, label=domain)
            style.marked(ax, cell[cell["q"] == 0.99], "place", ENDS, reading, color=hue, marker=sign)
            beside = cell[cell["q"] == 0.5].assign(place=lambda p50: p50["place"] + 0.06)
            style.with_interval(ax, beside, "place", ENDS, reading, color=hue, **dash)
        ax.axhline(0.0, color="black", linewidth=1.2)
        reach = 1.1 * max(abs(v) for v in ax.get_ylim())
        ax.set_ylim(-reach, reach)  # a loss is drawn as large as a win
        style.names_axis(ax, loads)
        ax.set_title(title)
    axes[0].plot([], [], "_", color="#555555", markersize=7, markeredgewidth=2, label="the median's change")
    return style.finish(axes, "change of p99, ms", 6)


@style.or_words(NO_PAIR)
def output_lengths(requests: pd.DataFrame, arms: Sequence[str]) -> list[Axes]:
    """`summaries.pooled_requests`: the distribution of output lengths in two arms, a panel per domain."""
    axes = style.panel_for_each(ordered(requests["domain"]), height=3.2, share_y=True)
    for domain, ax in axes.items():
        for arm, line in zip(arms, ("-", "--"), strict=True):
            lengths = requests.loc[(requests["domain"] == domain) & (requests["arm"] == arm), "output_tokens"]
            if len(lengths):
                seaborn.ecdfplot(x=lengths, ax=ax, linestyle=line, color=colour(arm, arms), label=arm)
        ax.set(xlabel="output tokens", ylabel="", ylim=(0, 1.02))
    return style.finish(axes.values(), "share of answers at most this long")
