"""Figures that hold drafting methods against each other: tables -> Axes."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from specbook.report.figures import style
from specbook.report.figures.speculation_figures import ENDS, NO_DRAFT, NO_PAIR, TIMES, k_axis
from specbook.report.figures.style import styled
from specbook.report.figures.tooltips import Reading

METHODS = ("P-EAGLE", "EAGLE-3", "draft model", "suffix", "ngram")
"""In the order of their colours."""
OF_A_STEP = ("#d9d9d9", *style.PALETTE)
"""A colour for each of nine parts: pale for the first, what passes between steps."""


def _methods(names: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(names))
    return sorted(found, key=lambda n: (METHODS.index(n) if n in METHODS else len(METHODS), found.index(n)))


def _look(method: str) -> dict[str, str]:
    return {
        "color": style.colour(method, METHODS), "marker": style.marker(method, METHODS), "label": method,
    }  # fmt: skip


@styled
@style.or_words(NO_PAIR)
def methods(best: pd.DataFrame) -> list[Axes]:
    """Rows of `speedup.best_k` by load and domain: a panel per load, each method at its own best K."""
    loads, domains = list(dict.fromkeys(best["load"])), style.ordered(best["domain"])
    named = _methods(best["method"])
    axes = style.panels(len(loads), height=4.0, share_y=True)
    for ax, load in zip(axes, loads, strict=True):
        for method in named:
            cell = best[(best["load"] == load) & (best["method"] == method)]
            shift = (named.index(method) - (len(named) - 1) / 2) * 0.15
            there = cell.assign(place=cell["domain"].map(domains.index) + shift)
            style.with_interval(ax, there, "place", ENDS, TIMES, linestyle="none", **_look(method))
        ax.set_xticks(range(len(domains)), domains)
        ax.grid(axis="x", visible=False)
        ax.set_title(load)
        style.ratio_axis(ax, [*best["speedup"], *best["low"], *best["high"]], "")
    axes[0].set_ylabel("speed-up over the best baseline")
    style.legend_above(axes, 5)
    return axes


@styled
@style.or_words(NO_DRAFT)
def lengths(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain` of one load: length against K, a panel per domain, a line per method."""
    domains = style.ordered(table["domain"])
    axes = style.panels(len(domains), height=3.2, share_y=True, columns=3)
    ends = ("length", "length_low", "length_high")
    for ax, domain in zip(axes, domains, strict=True):
        for method in _methods(table["method"]):
            cell = table[(table["domain"] == domain) & (table["method"] == method)]
            cell = cell.sort_values("num_speculative_tokens")
            style.with_interval(
                ax, cell, "num_speculative_tokens", ends, Reading("{:.2f}", " tokens/step"), **_look(method)
            )
        ks = np.arange(1, table["num_speculative_tokens"].max() + 1)
        ax.plot(ks, ks + 1, ":", color="black", label="all accepted (K + 1)")
        k_axis(ax, table)
        ax.set_title(domain)
        ax.set_ylim(bottom=0.9)
    axes[0].set_ylabel("tokens per step")
    style.legend_above(axes, 6)
    return axes


@styled
@style.or_words(NO_DRAFT)
def conditional(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain`, one K a method: conditional acceptance, a panel per domain.

    Hollow: deeper than the draft was trained to.
    """
    domains = style.ordered(table["domain"])
    axes = style.panels(len(domains), height=3.0, share_y=True, columns=3)
    for ax, domain in zip(axes, domains, strict=True):
        for row in table[table["domain"] == domain].itertuples():
            positions = np.arange(1, len(row.conditional) + 1)
            (line,) = ax.plot(positions, row.conditional, **_look(row.method))
            past = positions > row.trained_depth
            ax.plot(
                positions[past], row.conditional[past], linestyle="none", color=line.get_color(),
                marker=line.get_marker(), markerfacecolor="white",
            )  # fmt: skip
        ax.set(title=domain, ylim=(0, 1.03), xlabel="draft position")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("held, given all before")
    style.legend_above(axes, 5)
    return axes


@styled
@style.or_words(NO_PAIR)
def prices(costs: pd.DataFrame, lines: pd.DataFrame) -> list[Axes]:
    """`prediction.step_costs`, a dot per domain, and the lines of `prediction.prices`: a panel per batch."""
    batches = sorted(set(costs["concurrency"]))
    axes = style.panels(len(batches), height=3.6)
    for ax, batch in zip(axes, batches, strict=True):
        for method in _methods(costs["method"]):
            cell = costs[(costs["concurrency"] == batch) & (costs["method"] == method)]
            ax.plot(
                cell["num_speculative_tokens"], cell["cost"], linestyle="none", alpha=0.7, **_look(method)
            )
            ends = np.array([cell["num_speculative_tokens"].min(), cell["num_speculative_tokens"].max()])
            for line in lines[(lines["concurrency"] == batch) & (lines["method"] == method)].itertuples():
                ax.plot(ends, line.verify_cost + line.draft_cost * ends, "--", color=_look(method)["color"])
        k_axis(ax, costs)
        ax.set_ylim(bottom=0)
        ax.set_title(f"batch {batch:g}")
    axes[0].set_ylabel("a step, in baseline steps")
    style.legend_above(axes, 5)
    return axes


@styled
@style.or_words(NO_PAIR)
def race(arms: pd.DataFrame, every_k: pd.DataFrame, pair: Sequence[str]) -> list[Axes]:
    """`speedup.across_domains` against K for two methods, a panel per load; lines: `prediction.every_k`."""
    loads = list(dict.fromkeys(arms["load"]))
    axes = style.panels(len(loads), height=3.8, share_y=True)
    mean = every_k.assign(predicted=np.log(every_k["predicted"].astype(float)))
    mean = np.exp(
        mean.groupby(["load", "method", "num_speculative_tokens"])["predicted"].mean()
    ).reset_index()
    for ax, load in zip(axes, loads, strict=True):
        for method in pair:
            cell = arms[(arms["load"] == load) & (arms["method"] == method)]
            ax.plot(cell["num_speculative_tokens"], cell["speedup"], linestyle="none", **_look(method))
            line = mean[(mean["load"] == load) & (mean["method"] == method)]
            ax.plot(line["num_speculative_tokens"], line["predicted"], "--", color=_look(method)["color"])
        k_axis(ax, arms)
        ax.set_title(load)
        style.ratio_axis(ax, [*arms["speedup"], *mean["predicted"]], "")
    axes[0].set_ylabel("speed-up, domains averaged")
    axes[0].plot([], [], "--", color="#555555", label="predicted")
    style.legend_above(axes, 3)
    return axes


@styled
@style.or_words(NO_DRAFT)
def by_request(table: pd.DataFrame) -> Axes:
    """Box plot of what a step of single answers yields, from `acceptance.by_request`, one arm a method."""
    named = _methods(table["method"])
    (ax,) = style.panels(1, height=4.0)
    seaborn.boxplot(
        table, x="domain", y="length", hue="method", order=style.ordered(table["domain"]), hue_order=named,
        palette=[_look(method)["color"] for method in named], whis=(5, 95), showfliers=False, ax=ax,
        linewidth=1, gap=0.1,
    )  # fmt: skip
    ax.set(xlabel="", ylabel="tokens per step, of one answer")
    ax.get_legend().remove()
    ax.axhline(1.0, color="black", linewidth=1.2)
    style.legend_above([ax], 5)
    return ax


@styled
@style.or_words("No step was profiled yet.")
def step_parts(table: pd.DataFrame) -> Axes:
    """Plot with a bar an arm, in ms, cut into the parts of its step, from `analysis.steps.parts`."""
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
