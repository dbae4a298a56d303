"""Figures of the chapter on mixtures of experts: experts touched, and what noise in the router does."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from specbook.analysis import moe_tables
from specbook.report.figures import style
from specbook.report.figures.style import colour, marker, ordered, styled
from specbook.report.figures.tooltips import Reading
from specbook.stats import experts

NOTHING_COUNTED = "Experts touched: not measured yet."
NO_NOISE = "Noise in the router: not measured yet."
CLOCKS = {
    "length": ("tokens per verification step", Reading("{:.2f}", " tokens/step")),
    "passed": ("share of answers that pass", Reading("{:.2f}")),
    "experts": ("experts of a layer touched", Reading("{:.2f}", " experts")),
}


@styled
@style.or_words(NOTHING_COUNTED)
def touched(table: pd.DataFrame, num_experts: int, num_experts_per_token: int) -> Axes:
    """Rows of `mixture.touched`: experts against the tokens of a step; the line is independent routing."""
    (ax,) = style.panels(1, height=4.2)
    for domain in ordered(table["domain"]):
        look = {"color": colour(domain), "marker": marker(domain), "linestyle": "none", "label": domain}
        cell = table[table["domain"] == domain]
        style.with_interval(ax, cell, "tokens", ("experts", "low", "high"), CLOCKS["experts"][1], **look)
    tokens = np.unique(np.geomspace(1, max(2, table["tokens"].max()), 60).round().astype(int))
    line = [experts.touched(num_experts, num_experts_per_token, int(t)) for t in tokens]
    ax.plot(tokens, line, "--", color="black", label="independent routing")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0, num_experts * 1.08)
    ax.set_xlabel("tokens in one step: batch × (K + 1)")
    ax.set_ylabel("experts of a layer touched")
    style.legend_above([ax], 5)
    return ax


@styled
@style.or_words(NO_NOISE)
def noise(table: pd.DataFrame) -> list[Axes]:
    """Rows of `mixture.noise`: acceptance, right answers and experts against the strength of the noise."""
    axes = style.panels(len(CLOCKS), height=3.6)
    for ax, (name, (label, reading)) in zip(axes, CLOCKS.items(), strict=True):
        ends = (name, f"{name}_low", f"{name}_high")
        for (domain, kind), cell in table.groupby(["domain", "reading"], sort=False):
            line = "-" if kind == moe_tables.QUIET else "--"
            look = {"color": colour(domain), "marker": marker(domain), "linestyle": line}
            style.with_interval(ax, cell.sort_values("router_noise"), "router_noise", ends, reading, **look)
        ax.set_xscale("symlog", linthresh=0.25, linscale=0.5)
        ax.set_xticks(sorted(set(table["router_noise"])))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.set_xlabel("noise, in logits")
        ax.set_ylabel(label)
    for domain in ordered(table["domain"]):
        axes[0].plot([], [], color=colour(domain), marker=marker(domain), label=domain)
    for line, kind in (("-", moe_tables.QUIET), ("--", moe_tables.NOISY)):
        axes[0].plot([], [], line, color="#555555", label=kind)
    style.legend_above(axes, 3)
    return axes
