"""Figures of what speculation does: tables -> Axes. Where their numbers come from: `style.sign`."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from specbook.report.figures import style
from specbook.report.figures.style import colour, marker, ordered, styled
from specbook.report.figures.tooltips import Reading
from specbook.stats import theory

ENDS, TIMES = ("speedup", "low", "high"), Reading("{:.2f}", "×")
NO_PAIR = "No round here has both a baseline and an arm with speculation."
NO_DRAFT = "Nothing was drafted in these records."


@styled
@style.or_words(NO_PAIR)
def speedup(table: pd.DataFrame) -> Axes:
    """Rows of `speedup.speedups`, one per load and domain, with its interval; K beside each point."""
    (ax,) = style.panels(1, height=4.4)
    for row in style.by_load_and_domain(ax, table, ENDS, TIMES).itertuples():
        top = row.high if pd.notna(row.high) else row.speedup
        ax.annotate(f"K={row.num_speculative_tokens}", (row.place, top),
                    xytext=(0, 7), textcoords="offset points", ha="center", fontsize=10)  # fmt: skip
    style.ratio_axis(ax, [*table["speedup"], *table["low"], *table["high"] * 1.15])
    ax.text(
        0.01, 0.02, "below the line speculation loses", transform=ax.transAxes, fontsize=10, color="#a04000"
    )
    style.legend_above([ax])
    return ax


@styled
@style.or_words(NO_PAIR)
def speedup_by_k(table: pd.DataFrame, predicted: pd.DataFrame) -> list[Axes]:
    """`speedup.speedups` of one method against K, a panel per batch; dashed: `prediction.speedups`."""
    loads = list(dict.fromkeys(table["load"]))
    axes = style.panels(len(loads), height=3.9, share_y=True)
    for ax, load in zip(axes, loads, strict=True):
        for domain in ordered(table["domain"]):
            cell = table[(table["load"] == load) & (table["domain"] == domain)].sort_values(
                "num_speculative_tokens"
            )
            look = {"color": colour(domain), "marker": marker(domain), "label": domain}
            style.with_interval(ax, cell, "num_speculative_tokens", ENDS, TIMES, **look)
            guess = predicted[(predicted["load"] == load) & (predicted["domain"] == domain)]
            guess = guess.sort_values("num_speculative_tokens")
            ax.plot(
                guess["num_speculative_tokens"], guess["predicted"], "--", color=colour(domain), alpha=0.7
            )
        k_axis(ax, table)
        style.ratio_axis(ax, [*table["speedup"], *table["low"], *table["high"], *predicted["predicted"]], "")
        ax.set_title(load)
    axes[0].set_ylabel("speed-up over the best baseline")
    axes[0].plot([], [], "--", color="#555555", label="predicted")
    style.legend_above(axes, 5)
    return axes


def k_axis(ax: Axes, table: pd.DataFrame) -> None:
    """A tick at each K of the table, and nowhere else."""
    ticks = sorted(set(table["num_speculative_tokens"]))
    ax.set_xticks(ticks)
    ax.set_xlim(ticks[0] - 0.5, ticks[-1] + 0.5)
    ax.set_xlabel("K, draft tokens per step")


@styled
@style.or_words(NO_DRAFT)
def acceptance_by_position(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain` of one K and load: joint and conditional, by draft position."""
    axes = style.panels(2, share_y=True)
    for ax, name in zip(axes, ("joint", "conditional"), strict=True):
        for domain in ordered(table["domain"]):
            (rates,) = table.loc[table["domain"] == domain, name]
            positions = np.arange(1, len(rates) + 1)
            ax.plot(positions, rates, color=colour(domain), marker=marker(domain), label=domain)
        ax.set_xticks(positions)
        ax.set_xlabel("draft position")
        ax.set_ylim(0, 1.03)
    axes[0].set_title("joint: this one and all before it")
    axes[1].set_title("conditional: this one, given all before it")
    axes[0].set_ylabel("share of drafts accepted")
    style.legend_above(axes)
    return axes


@styled
@style.or_words(NO_DRAFT)
def acceptance_length(table: pd.DataFrame) -> Axes:
    """Rows of `acceptance.by_domain` of one load: acceptance length against K, under its ceiling K + 1."""
    (ax,) = style.panels(1, height=3.8)
    for domain in ordered(table["domain"]):
        cell = table[table["domain"] == domain].sort_values("num_speculative_tokens")
        look = {"color": colour(domain), "marker": marker(domain), "label": domain}
        ends = ("length", "length_low", "length_high")
        style.with_interval(
            ax, cell, "num_speculative_tokens", ends, Reading("{:.2f}", " tokens/step"), **look
        )
    ticks = np.array(sorted(set(table["num_speculative_tokens"])))
    ax.plot(ticks, ticks + 1, ":", color="black", label="all accepted (K + 1)")
    k_axis(ax, table)
    ax.set_ylim(1, max(ticks) + 1.2)
    ax.set_ylabel("tokens per verification step")
    ax.legend(loc="upper left")
    return ax


@styled
@style.or_words(NO_PAIR)
def tail_delta(table: pd.DataFrame) -> list[Axes]:
    """Plot of p99 minus the baseline's, in ms, the median's change beside it as a dash, both with intervals.

    Made from `tail.tails`, one arm per load. Hollow: few prompts, or late first chunks.
    """
    titles = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}
    there, loads, axes = style.placed(table), list(dict.fromkeys(table["load"])), style.panels(3)
    for ax, (metric, title) in zip(axes, titles.items(), strict=True):
        for domain in ordered(table["domain"]):
            _deltas(ax, there[(there["metric"] == metric) & (there["domain"] == domain)], domain)
        ax.axhline(0.0, color="black", linewidth=1.2)
        reach = 1.1 * max(abs(v) for v in ax.get_ylim())
        ax.set_ylim(-reach, reach)  # a loss is drawn as large as a win
        ax.set_xticks(range(len(loads)), loads)
        ax.grid(axis="x", visible=False)
        ax.set_title(title)
    axes[0].set_ylabel("change of p99, ms")
    axes[0].plot([], [], "_", color="#555555", markersize=7, markeredgewidth=2, label="the median's change")
    style.legend_above(axes, 6)
    return axes


def _deltas(ax: Axes, cell: pd.DataFrame, domain: str) -> None:
    ms = cell.assign(**{name: 1e3 * cell[name].astype(float) for name in ("value", "low", "high")})
    hue, sign = colour(domain), marker(domain)
    ax.plot([], [], sign, color=hue, label=domain)
    p99, p50 = ms[ms["q"] == 0.99], ms[ms["q"] == 0.5]
    ends, reading = ("value", "low", "high"), Reading("{:+.1f}", " ms")
    style.marked(ax, p99, "place", ends, reading, color=hue, marker=sign)
    beside = p50.assign(place=p50["place"] + 0.06)
    look = {"marker": "_", "linestyle": "none", "color": hue, "elinewidth": 0.9, "markeredgewidth": 2}
    style.with_interval(ax, beside, "place", ends, reading, **look)


@styled
@style.or_words(NO_PAIR)
def output_lengths(requests: pd.DataFrame, arms: Sequence[str]) -> list[Axes]:
    """Plot of the distribution of output lengths in two arms, a panel per domain.

    Made from `summaries.pooled_requests`.
    """
    domains = ordered(requests["domain"])
    axes = style.panels(len(domains), height=3.2, share_y=True)
    for ax, domain in zip(axes, domains, strict=True):
        for arm, line in zip(arms, ("-", "--"), strict=True):
            lengths = requests.loc[(requests["domain"] == domain) & (requests["arm"] == arm), "output_tokens"]
            if len(lengths):
                seaborn.ecdfplot(x=lengths, ax=ax, linestyle=line, color=colour(arm, arms), label=arm)
        ax.set_title(domain)
        ax.set(xlabel="output tokens", ylabel="", ylim=(0, 1.02))
    axes[0].set_ylabel("share of answers at most this long")
    style.legend_above(axes)
    return axes


@styled
def theory_map(
    draft_costs: Sequence[float], verify_cost: float, alphas: Sequence[float], ks: Sequence[int]
) -> list[Axes]:
    """Computed, nothing measured: speed-up against K for some acceptances, a panel per draft cost."""
    axes = style.panels(len(draft_costs), share_y=True)
    for ax, cost in zip(axes, draft_costs, strict=True):
        for i, alpha in enumerate(alphas):
            lengths = [theory.expected_acceptance_length(alpha, k) for k in ks]
            gains = [theory.speedup(n, k, cost, verify_cost) for n, k in zip(lengths, ks, strict=True)]
            ax.plot(ks, gains, marker=style.MARKERS[i], color=style.PALETTE[i], label=f"acceptance {alpha:g}")
        ax.set_xlabel("K, draft tokens per step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"a draft token costs {cost:g} steps")
    for ax in axes:
        style.ratio_axis(ax, [y for panel in axes for line in panel.lines for y in line.get_ydata()], "")
    axes[0].set_ylabel("speed-up")
    style.legend_above(axes)
    style.note(axes, f"computed · a verification step costs {verify_cost:g} baseline steps")
    return axes


@styled
def play(k: int, acceptance: float, draft_cost: float, verify_cost: float) -> None:
    """For sliders: the computed speed-up at one K, on the curve over all K, shown at once."""
    axes = theory_map([draft_cost], verify_cost, [acceptance], range(1, 17))
    gain = theory.speedup(theory.expected_acceptance_length(acceptance, k), k, draft_cost, verify_cost)
    axes[0].plot([k], [gain], "o", color="black", markersize=10)
    axes[0].annotate(f"{gain:.2f}×", (k, gain), xytext=(8, 8), textcoords="offset points")
