"""Figures of what drafts are accepted: tables -> Axes. Where their numbers come from: `style.sign`."""

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes

from specbook.analysis import moe_tables
from specbook.analysis.versions import VERSIONS
from specbook.report.figures import style
from specbook.report.figures.style import METHODS, K, Reading, look, ordered

NO_DRAFT = "Nothing was drafted in these records."
ENDS, TOKENS = ("length", "length_low", "length_high"), Reading("{:.2f}", " tokens/step")
EXPERTS = Reading("{:.2f}", " experts")
CLOCKS = {
    "length": ("tokens per verification step", TOKENS),
    "passed": ("share of answers that pass", Reading("{:.2f}")),
    "experts": ("experts of a layer touched", EXPERTS),
}


@style.or_words(NO_DRAFT)
def by_position(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain` of one K and load: joint and conditional, by draft position."""
    axes = style.panels(2, share_y=True)
    for ax, name in zip(axes, ("joint", "conditional"), strict=True):
        ends: dict[str, tuple[float, float]] = {}
        for domain in ordered(table["domain"]):
            (rates,) = table.loc[table["domain"] == domain, name]
            positions = np.arange(1, len(rates) + 1)
            ax.plot(positions, rates, **look(domain))
            ends[domain] = positions[-1], rates[-1]
        ax.set(ylim=(0, 1.03), xlabel="draft position", xticks=positions)
        style.name_lines(ax, ends)
    axes[0].set_title("joint: this one and all before it")
    axes[1].set_title("conditional: this one, given all before it")
    axes[0].set_ylabel("share of drafts accepted")
    return axes


@style.or_words(NO_DRAFT)
def conditional(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain`, one K a method: conditional acceptance, a panel per domain.

    Hollow: deeper than the draft was trained to.
    """
    axes = style.panel_for_each(ordered(table["domain"]), height=3.0, share_y=True, columns=3)
    for domain, ax in axes.items():
        ends: dict[str, tuple[float, float]] = {}
        deepest = max(map(len, table["conditional"]))
        for row in table[table["domain"] == domain].itertuples():
            positions = np.arange(1, len(row.conditional) + 1)
            (line,) = ax.plot(positions, row.conditional, **look(row.method, METHODS))
            past = positions > row.trained_depth
            ax.plot(
                positions[past], row.conditional[past], linestyle="none", color=line.get_color(),
                marker=line.get_marker(), markerfacecolor="white",
            )  # fmt: skip
            if (known := np.isfinite(row.conditional)).any():
                ends[row.method] = positions[known][-1], row.conditional[known][-1]
        ax.set(ylim=(0, 1.03), xlabel="draft position", xticks=range(1, deepest + 1, 1 + deepest // 9))
        style.name_lines(ax, ends, METHODS)
    next(iter(axes.values())).set_ylabel("accepted, given all before")
    return list(axes.values())


def _ceiling(ax: Axes, ks: np.ndarray) -> None:
    ax.plot(ks, ks + 1, ":", color="black", label="all accepted (K + 1)")


@style.or_words(NO_DRAFT)
def length(table: pd.DataFrame) -> Axes:
    """Rows of `acceptance.by_domain` of one load: acceptance length against K, under its ceiling K + 1."""
    (ax,) = style.panels(1, height=3.8)
    ends: dict[str, tuple[float, float]] = {}
    for domain in ordered(table["domain"]):
        cell = table[table["domain"] == domain].sort_values(K)
        style.with_interval(ax, cell, K, ENDS, TOKENS, **look(domain) | {"label": None})
        ends[domain] = tuple(cell[[K, "length"]].iloc[-1])
    ticks = np.array(sorted(set(table[K])))
    _ceiling(ax, ticks)
    style.k_axis(ax, table)
    ax.set_ylim(1, max(ticks) + 1.2)
    ax.set_ylabel("tokens per verification step")
    ax.legend(loc="upper left")
    style.name_lines(ax, ends)
    return ax


@style.or_words(NO_DRAFT)
def length_by_method(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain` of one load: length against K, a panel per domain, a line per method."""
    axes = style.panel_for_each(ordered(table["domain"]), height=3.2, share_y=True, columns=3)
    ends: dict[str, dict[str, tuple[float, float]]] = {domain: {} for domain in axes}
    for domain, ax in axes.items():
        for method in ordered(table["method"], METHODS):
            cell = table[(table["domain"] == domain) & (table["method"] == method)].sort_values(K)
            signs = look(method, METHODS)
            if len(cell) > 1:  # a line; a single point is named in the legend
                ends[domain][method] = tuple(cell[[K, "length"]].iloc[-1])
                signs["label"] = None
            style.with_interval(ax, cell, K, ENDS, TOKENS, **signs)
        _ceiling(ax, np.arange(1, table[K].max() + 1))
        style.k_axis(ax, table)
    ax.set_ylim(bottom=0.9)
    for domain, ax in axes.items():  # once all panels have set the axis that they share
        style.name_lines(ax, ends[domain], METHODS)
    return style.finish(axes.values(), "tokens per step", 6)


@style.or_words(NO_DRAFT)
def length_by_traffic(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain`: length against K, a panel a method and load; open-ended is dashed."""
    axes = style.by_load_and_method(table, ENDS, TOKENS)
    ticks = np.array(sorted(set(table[K])))
    for ax in axes:
        _ceiling(ax, ticks)
        ax.set_ylim(1, max(ticks) + 1.5)
    return style.finish(axes, "tokens per verification step")


@style.or_words("A draft one version behind: not measured yet.")
def length_by_version(table: pd.DataFrame) -> list[Axes]:
    """Plot of acceptance length by domain, a panel a load, a colour for each version (`versions.lengths`)."""
    axes, domains = style.panel_for_each(table["load"], height=3.8, share_y=True), ordered(table["domain"])
    for load, ax in axes.items():
        for place, version in enumerate(VERSIONS):
            cell = table[(table["load"] == load) & (table["version"] == version)]
            there = cell.assign(place=cell["domain"].map(domains.index) + 0.2 * (place - 1))
            style.with_interval(ax, there, "place", ENDS, TOKENS, linestyle="none", **look(version, VERSIONS))
        style.names_axis(ax, domains)
    ax.set_ylim(bottom=0.9)
    return style.finish(axes.values(), "tokens per step")


@style.or_words(NO_DRAFT)
def by_request(table: pd.DataFrame) -> Axes:
    """Box plot of what a step of single answers yields, from `acceptance.by_request`, one arm a method."""
    methods = ordered(table["method"], METHODS)
    (ax,) = style.panels(1, height=4.0)
    seaborn.boxplot(
        table, x="domain", y="length", hue="method", order=ordered(table["domain"]), hue_order=methods,
        palette=[style.colour(method, METHODS) for method in methods], whis=(5, 95), showfliers=False, ax=ax,
        linewidth=1, linecolor="#555555", saturation=1, gap=0.1,
    )  # fmt: skip
    ax.set(xlabel="", ylabel="tokens per step, of one answer")
    ax.get_legend().remove()
    ax.axhline(1.0, color="black", linewidth=1.2)
    style.legend_above([ax])
    return ax


@style.or_words("Sampled answers: not measured yet.")
def by_temperature(table: pd.DataFrame) -> list[Axes]:
    """Plot of what a step yields against the temperature, a panel an arm (`label`) and a line a domain."""
    axes, domains = style.panel_for_each(table["label"], height=3.8, share_y=True), ordered(table["domain"])
    for label, ax in axes.items():
        for domain in domains:
            line = table[(table["label"] == label) & (table["domain"] == domain)].sort_values("temperature")
            ax.plot("temperature", "length", data=line, **look(domain, domains))
        ax.set_xlabel("temperature")
    return style.finish(axes.values(), "tokens per step")


@style.or_words("Experts touched: not measured yet.")
def experts_touched(table: pd.DataFrame, num_experts: int, num_experts_per_token: int) -> Axes:
    """Rows of `moe_tables.touched`: experts against a step's tokens; the line is independent routing."""
    (ax,) = style.panels(1, height=4.2)
    for domain in ordered(table["domain"]):
        cell, ends = table[table["domain"] == domain], ("experts", "low", "high")
        style.with_interval(ax, cell, "tokens", ends, EXPERTS, linestyle="none", **look(domain))
    line = moe_tables.independent(num_experts, num_experts_per_token, table["tokens"].max())
    ax.plot(line["tokens"], line["experts"], "--", color="black")
    ax.annotate("independent routing", line.iloc[len(line) // 3], xytext=(-8, 6), textcoords="offset points",
                ha="right", fontsize=10)  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0, num_experts * 1.08)
    ax.set_xlabel("tokens in one step: batch × (K + 1)")
    return style.finish([ax], "experts of a layer touched")[0]


@style.or_words("Noise in the router: not measured yet.")
def router_noise(table: pd.DataFrame) -> list[Axes]:
    """Rows of `moe_tables.noise`: acceptance, right answers and experts against the strength of the noise."""
    axes = style.panels(len(CLOCKS), height=3.6)
    for ax, (name, (label, reading)) in zip(axes, CLOCKS.items(), strict=True):
        ends = (name, f"{name}_low", f"{name}_high")
        for (domain, kind), cell in table.groupby(["domain", "reading"], sort=False):
            lines = {"color": style.colour(domain), "marker": style.marker(domain)}
            lines["linestyle"] = "-" if kind == moe_tables.QUIET else "--"
            style.with_interval(ax, cell.sort_values("router_noise"), "router_noise", ends, reading, **lines)
        ax.set_xscale("symlog", linthresh=0.25, linscale=0.5)
        ax.set_xticks(sorted(set(table["router_noise"])))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.set_xlabel("noise, in logits")
        ax.set_ylabel(label)
    for domain in ordered(table["domain"]):
        axes[0].plot([], [], **look(domain))
    for line, kind in (("-", moe_tables.QUIET), ("--", moe_tables.NOISY)):
        axes[0].plot([], [], line, color="#555555", label=kind)
    style.legend_above(axes, 3)
    return axes
