"""Figures of what speculation gains: tables -> Axes. Where their numbers come from: `style.sign`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from specbook.analysis import prediction
from specbook.report.figures import style
from specbook.report.figures.style import METHODS, NO_PAIR, K, Reading, colour, look, ordered, styled

ENDS, TIMES = ("speedup", "low", "high"), Reading("{:.2f}", "×")


def _values(table: pd.DataFrame) -> list[float]:
    return [value for name in ENDS for value in table[name]]


def _predicted(axes: Mapping[str, Axes]) -> None:
    next(iter(axes.values())).plot([], [], "--", color="#555555", label="predicted")


@style.or_words(NO_PAIR)
def by_load(table: pd.DataFrame) -> Axes:
    """Rows of `speedup.speedups`, one per load and domain, with its interval; above each its K."""
    (ax,) = style.panels(1, height=4.4)
    for row in style.by_load_and_domain(ax, table, ENDS, TIMES).itertuples():
        top = row.high if pd.notna(row.high) else row.speedup
        ax.annotate(str(row.num_speculative_tokens), (row.place, top),
                    xytext=(0, 7), textcoords="offset points", ha="center", fontsize=10)  # fmt: skip
    style.ratio_axis(ax, [*table["speedup"], *table["low"], *table["high"] * 1.15])
    style.below_the_line(ax, "numbers: K; below the line: slower")
    return style.finish([ax], "speed-up over the best baseline (×)")[0]


@style.or_words(NO_PAIR)
def by_k(table: pd.DataFrame, predicted: pd.DataFrame) -> list[Axes]:
    """`speedup.speedups` of one method against K, a panel per batch; dashed: `prediction.speedups`."""
    axes = style.panel_for_each(table["load"], height=3.9, share_y=True)
    for load, ax in axes.items():
        for domain in ordered(table["domain"]):
            cell, line = (
                one[(one["load"] == load) & (one["domain"] == domain)].sort_values(K)
                for one in (table, predicted)
            )
            style.with_interval(ax, cell, K, ENDS, TIMES, **look(domain))
            ax.plot(line[K], line["predicted"], "--", color=colour(domain), alpha=0.7)
        style.k_axis(ax, table)
        style.ratio_axis(ax, [*_values(table), *predicted["predicted"]])
    _predicted(axes)
    return style.finish(axes.values(), "speed-up over the best baseline")


@style.or_words(NO_PAIR)
def by_batch(table: pd.DataFrame) -> list[Axes]:
    """Rows of `speedup.speedups`: a panel per domain, and in it a line per label over the batches."""
    rows = table.assign(concurrency=table["load"].str.removeprefix("batch ").astype(int))
    labels = list(dict.fromkeys(table["label"]))
    axes = style.panel_for_each(ordered(table["domain"]), height=3.9, share_y=True)
    for domain, ax in axes.items():
        for i, label in enumerate(labels):
            cell = rows[(rows["domain"] == domain) & (rows["label"] == label)].sort_values("concurrency")
            aside = 2 ** (0.12 * (i - (len(labels) - 1) / 2))
            there = cell.assign(place=aside * cell["concurrency"])
            style.with_interval(ax, there, "place", ENDS, TIMES, **look(label, labels))
        style.batches(ax, rows["concurrency"], "batch")
        style.ratio_axis(ax, _values(table))
    return style.finish(axes.values(), "speed-up over no speculation")


@style.or_words(NO_PAIR)
def k_map(table: pd.DataFrame) -> list[Axes]:
    """The K of each batch and domain, a panel per method; the darker, the larger is what it gains at least.

    Columns: method, domain, concurrency, k (0: nothing is drafted), bound (1 where k is 0 and has no price).
    """
    domains, batches = ordered(table["domain"]), sorted(set(table["concurrency"]))
    axes = style.panel_for_each(ordered(table["method"], METHODS), height=3.2, share_y=True, columns=2)
    most = np.log(max(2.0, float(table["bound"].max())))
    for method, ax in axes.items():
        for row in table[table["method"] == method].itertuples():
            x, y = batches.index(row.concurrency), domains.index(row.domain)
            alpha = 0.6 * max(0.0, np.log(row.bound)) / most
            square = Rectangle((x - 0.5, y - 0.5), 1, 1, color=style.PALETTE[0], alpha=alpha, linewidth=0)
            ax.add_patch(square)
            words = f"K={row.k}\n{row.bound:.2f}×" if row.k else "off"
            ax.text(x, y, words, ha="center", va="center", fontsize=10)
        style.names_axis(ax, [f"{batch:g}" for batch in batches])
        ax.set_yticks(range(len(domains)), domains)
        ax.set(xlim=(-0.5, len(batches) - 0.5), ylim=(len(domains) - 0.5, -0.5), xlabel="batch")
        ax.grid(visible=False)
    return list(axes.values())


@style.or_words(NO_PAIR)
def by_method(best: pd.DataFrame) -> list[Axes]:
    """Rows of `speedup.best_k` by load and domain: a panel per load, with the domains measured at it."""
    methods = ordered(best["method"], METHODS)
    axes = style.panel_for_each(best["load"], height=4.0, share_y=True)
    for load, ax in axes.items():
        here = best[best["load"] == load]
        domains = ordered(here["domain"])
        for method in methods:
            cell = here[here["method"] == method]
            aside = (methods.index(method) - (len(methods) - 1) / 2) * 0.15
            there = cell.assign(place=cell["domain"].map(domains.index) + aside)
            style.with_interval(ax, there, "place", ENDS, TIMES, linestyle="none", **look(method, METHODS))
        style.names_axis(ax, domains)
        ax.set_xlim(-0.6, len(domains) - 0.4)
        style.ratio_axis(ax, _values(best))
    return style.finish(axes.values(), "speed-up over the best baseline")


@style.or_words(NO_PAIR)
def by_temperature(table: pd.DataFrame) -> list[Axes]:
    """Rows of `prediction.bounds` with a `temperature`: a panel an arm, and its domains side by side."""
    heats, domains = sorted(set(table["temperature"])), ordered(table["domain"])
    axes = style.panel_for_each(table["label"], height=4.0, share_y=True)
    for label, ax in axes.items():
        for domain in domains:
            cell = table[(table["label"] == label) & (table["domain"] == domain)]
            aside = (domains.index(domain) - (len(domains) - 1) / 2) * 0.13
            there = cell.assign(place=cell["temperature"].map(heats.index) + aside)
            style.with_interval(ax, there, "place", ENDS, TIMES, linestyle="none", **look(domain, domains))
        ax.set_xticks(range(len(heats)), [f"{heat:g}" for heat in heats])
        ax.set_xlabel("temperature")
        style.ratio_axis(ax, _values(table))
    return style.finish(axes.values(), "speed-up over the baseline")


@style.or_words(NO_PAIR)
def by_traffic(table: pd.DataFrame) -> list[Axes]:
    """Rows of `speedup.speedups` with speculation: speed-up against K; open-ended domains are dashed."""
    axes = style.by_load_and_method(table, ENDS, TIMES)
    for ax in axes:
        style.ratio_axis(ax, _values(table))
    return style.finish(axes, "speed-up over the baseline")


@style.or_words(NO_PAIR)
def step_prices(costs: pd.DataFrame, lines: pd.DataFrame) -> list[Axes]:
    """`prediction.step_costs`, a dot per domain, and the lines of `prediction.prices`: a panel per batch."""
    batches = sorted(set(costs["concurrency"]))
    axes = style.panels(len(batches), height=3.6)
    for ax, batch in zip(axes, batches, strict=True):
        for method in ordered(costs["method"], METHODS):
            cell, fitted = (
                one[(one["concurrency"] == batch) & (one["method"] == method)] for one in (costs, lines)
            )
            ax.plot(cell[K], cell["cost"], linestyle="none", alpha=0.7, **look(method, METHODS))
            ends = np.array([cell[K].min(), cell[K].max()])
            for line in fitted.itertuples():
                ax.plot(ends, line.fixed_cost + line.draft_cost * ends, "--", color=colour(method, METHODS))
        style.k_axis(ax, costs)
        ax.set_ylim(bottom=0)
        ax.set_title(f"batch {batch:g}")
    return style.finish(axes, "a step, in baseline steps")


@style.or_words(NO_PAIR)
def crossover(means: pd.DataFrame, every_k: pd.DataFrame, pair: Sequence[str]) -> list[Axes]:
    """Speed-up of two methods against K, domains averaged, a panel per load; dashed: `prediction.every_k`.

    `means`: load, method, K, ENDS and `estimate`.
    """
    axes = style.panel_for_each(means["load"], height=3.8, share_y=True)
    computed = prediction.across_domains(every_k)
    for load, ax in axes.items():
        ends: dict[str, tuple[float, float]] = {}
        for aside, method in zip((-0.1, 0.1), pair, strict=True):
            cell, line = (one[(one["load"] == load) & (one["method"] == method)] for one in (means, computed))
            there, signs = cell.assign(place=cell[K] + aside), look(method, METHODS)
            style.with_interval(ax, there, "place", ENDS, TIMES, linestyle="none", **signs | {"label": None})
            ax.plot(line[K], line["predicted"], "--", color=signs["color"])
            if len(cell):
                ends[method] = tuple(there.loc[cell[K].idxmax(), ["place", "speedup"]])
        style.k_axis(ax, means)
        style.ratio_axis(ax, [*_values(means), *computed["predicted"]])
        style.name_lines(ax, ends, METHODS)
    next(iter(axes.values())).plot([], [], "o", color="#555555", label="measured")
    _predicted(axes)
    return style.finish(axes.values(), "speed-up, domains averaged")


@styled
def theory_map(
    draft_costs: Sequence[float], fixed_cost: float, alphas: Sequence[float], ks: Sequence[int]
) -> list[Axes]:
    """Computed, nothing measured: speed-up against K for some acceptances, a panel per draft cost."""
    axes = style.panels(len(draft_costs), share_y=True)
    for ax, cost in zip(axes, draft_costs, strict=True):
        for i, alpha in enumerate(alphas):
            gains = [prediction.in_theory(alpha, k, cost, fixed_cost) for k in ks]
            ax.plot(ks, gains, marker=style.MARKERS[i], color=style.PALETTE[i], label=f"acceptance {alpha:g}")
        ax.set_xlabel("K, draft tokens per step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"draft token: {cost:g} steps")
    for ax in axes:
        style.ratio_axis(ax, [y for panel in axes for line in panel.lines for y in line.get_ydata()])
    style.finish(axes, "speed-up")
    style.note(axes, f"computed · the fixed part of a step costs {fixed_cost:g} baseline steps")
    return axes


@styled
def play(k: int, acceptance: float, draft_cost: float, fixed_cost: float) -> None:
    """For sliders: the computed speed-up at one K, on the curve over all K, shown at once."""
    axes = theory_map([draft_cost], fixed_cost, [acceptance], range(1, 17))
    gain = prediction.in_theory(acceptance, k, draft_cost, fixed_cost)
    axes[0].plot([k], [gain], "o", color="black", markersize=10)
    axes[0].annotate(f"{gain:.2f}×", (k, gain), xytext=(8, 8), textcoords="offset points")


@style.or_words("No arm has rounds enough for two sides.")
def power(alarms: pd.DataFrame) -> Axes:
    """`gate.alarms` at many slowdowns: the share called worse, with its interval, a line a kind of replay."""
    (ax,) = style.panels(1, height=3.8)
    shares = pd.DataFrame([one.model_dump() for one in alarms["estimate"]])
    table = shares.rename(columns={"value": "share"}).assign(
        slower=100 * alarms["slowdown"].to_numpy(),
        arm=(alarms["over"] + ", rounds " + alarms["rounds"]).to_numpy(),
    )
    names = list(dict.fromkeys(table["arm"]))
    ends, digits = ("share", "low", "high"), Reading("{:.2f}")
    for place, name in enumerate(names):
        own = table[table["arm"] == name]
        there = own.assign(place=own["slower"] + 0.3 * (place - 1))
        style.with_interval(ax, there, "place", ends, digits, **look(name, names))
    ax.set_xticks(sorted(set(table["slower"])))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("B slowed down by, %")
    return style.finish([ax], "share called worse", 2)[0]
