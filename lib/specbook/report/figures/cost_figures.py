"""Figures of what tokens cost: tables -> Axes. Where their numbers come from: `style.sign`."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from specbook.analysis import token_cost
from specbook.analysis.token_cost import BASELINE, SPECULATING, Bar
from specbook.report.figures import style
from specbook.report.figures.style import NO_PAIR, Reading, colour, marker, styled

KINDS = (SPECULATING, BASELINE)
ABOVE = {"xytext": (9, 6), "ha": "left", "va": "bottom"}
BELOW = {"xytext": (-9, -6), "ha": "right", "va": "top"}
LABELS = {
    "utilisation": "utilisation", "price": "price of an hour", "traffic": "kind of traffic",
    "batch": "batch", "speculation": "speculation on or off", "measurement": "the measurement's interval",
}  # fmt: skip


def _dollars(value: float, _: object = None) -> str:
    return f"${value:,.0f}" if value >= 10 else f"${value:.2g}"


def _logarithmic(axis: Axis, low: float, high: float, form: Callable[..., str] = _dollars) -> None:
    """A logarithmic axis from `low` to `high`: labels at powers of ten, over a short range at 2 and 5 too."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [n * 10.0**power for power in powers for n in ((1, 2, 5) if high < 100 * low else (1,))]
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_major_formatter(FuncFormatter(form))
    axis.set_minor_locator(NullLocator())


def _dollar_axis(ax: Axes, values: Sequence[float]) -> None:
    _logarithmic(ax.yaxis, min(values) / 1.3, max(values) * 1.3)
    ax.set_ylabel("$ per 1M output tokens")


@styled
def by_batch(table: pd.DataFrame, keeps: pd.Series) -> Axes:
    """`token_cost.bills` by use, with intervals; hollow where `keeps`, of the same rows, is False."""
    (ax,) = style.panels(1, height=4.2)
    for kind in KINDS:
        cell = table[table["kind"] == kind].sort_values("concurrency")
        bills = cell.assign(estimate=cell["by_use"], **{
            end: [getattr(bill, end) for bill in cell["by_use"]] for end in ("value", "low", "high")
        })  # fmt: skip
        hue, reading = colour(kind, KINDS), Reading("${:.3g}", " per 1M")
        style.with_interval(ax, bills, "concurrency", ("value", "low", "high"), reading, color=hue)
        for row in bills.itertuples():
            inside = hue if keeps[row.Index] else "white"
            ax.plot(row.concurrency, row.value, marker(kind, KINDS), markersize=9, color=hue,
                    markerfacecolor=inside, zorder=3)  # fmt: skip
    values = [bill.value for bill in table["by_use"]]
    style.batches(ax, table["concurrency"])
    _dollar_axis(ax, values)
    # A line's name stands beside it: above the start of the higher one, below the middle of the other.
    points = table.assign(usd=values).sort_values("concurrency")
    lines = sorted((line for _, line in points.groupby("kind")), key=lambda line: -line["usd"].iloc[0])
    for line, place in zip(lines, (ABOVE, BELOW), strict=False):
        row = line.iloc[0 if place is ABOVE else len(line) // 2]
        ax.annotate(
            row["kind"], (row["concurrency"], row["usd"]), textcoords="offset points",
            color=colour(row["kind"], KINDS), **place,
        )  # fmt: skip
    return ax


@style.or_words(NO_PAIR)
def saved(table: pd.DataFrame) -> Axes:
    """`token_cost.savings`: share of the bill saved, by batch and domain; below 0 speculation is a cost."""
    (ax,) = style.panels(1, height=4.2)
    style.by_load_and_domain(ax, table, ("saved", "saved_low", "saved_high"), Reading("{:.0%}", " saved"))
    low = min(-0.15, float(np.nanmin(table[["saved", "saved_low"]].to_numpy())) - 0.05)
    ax.set_ylim(low, 1.0)
    ax.axhline(0, color="black", linewidth=1.2)
    ax.axhspan(low, 0, color="#D55E00", alpha=0.07, linewidth=0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    style.below_the_line(ax, "below the line it costs")
    return style.finish([ax], "share of the bill saved")[0]


@style.or_words("No batch that was measured keeps the strictest objective.")
def by_utilisation(table: pd.DataFrame, usd_per_hour: float, elsewhere: pd.DataFrame, served: str) -> Axes:
    """`token_cost.goodput` of one objective, by reservation; dotted: `api_prices.apis` for the same text."""
    (ax,) = style.panels(1, height=4.4)
    ax.set_title(f"solid: {served}", loc="left")
    values = list(elsewhere["usd_per_million"])
    for row in table.itertuples():
        paid = token_cost.by_utilisation(row.speed, usd_per_hour)
        ax.plot(*paid.to_numpy().T, color=colour(row.kind, KINDS), label=f"{row.kind}, {row.load}")
        values += list(paid["usd_per_million"])
    for value, label in _alike(elsewhere):
        ax.axhline(value, color="#555555", linestyle=":", linewidth=1.4)
        ax.text(1, value * 1.04, label, fontsize=10, va="bottom", ha="right", color="#555555")
    _logarithmic(ax.xaxis, 0.001, 1, lambda share, _: f"{100 * share:g} %")
    ax.set_xlabel("utilisation: busy share of paid time")
    _dollar_axis(ax, values)
    style.legend_above([ax], 2)
    return ax


def _alike(elsewhere: pd.DataFrame) -> list[tuple[float, str]]:
    """Prices within a third of each other as one line at the lowest of them: labels must not overlap."""
    groups: list[tuple[float, bool, list[str]]] = []
    for row in elsewhere.sort_values("usd_per_million").itertuples():
        if groups and row.usd_per_million < 1.33 * groups[-1][0] and row.same_model == groups[-1][1]:
            groups[-1][2].append(row.name)
        else:
            groups.append((row.usd_per_million, row.same_model, [row.name]))
    return [(value, _names(same, names)) for value, same, names in groups]


def _names(same_model: bool, names: Sequence[str]) -> str:
    """`another model: GPT-5.4-mini`, `other models: GPT-5.4 and 2 more`, `the same model: ...`."""
    others = "other models" if names[1:] else "another model"
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f"{'the same model' if same_model else others}: {names[0]}{more}"


@styled
def tornado(bars: Sequence[Bar], base: float) -> Axes:
    """`token_cost.bars`: what each assumption alone does to the cost, around the base case."""
    (ax,) = style.panels(1, height=1.2 + 0.5 * len(bars))
    for place, bar in enumerate(reversed(bars)):
        low, high = sorted((bar.at_low, bar.at_high))
        ax.barh(place, max(base - low, 0), left=low, color=style.PALETTE[0], height=0.6)
        ax.barh(place, max(high - base, 0), left=base, color=style.PALETTE[1], height=0.6)
        for end, side, gap in ((low, "right", -4), (high, "left", 4)):
            ax.annotate(_dollars(end), (end, place), xytext=(gap, 0), textcoords="offset points", ha=side,
                        va="center", fontsize=10)  # fmt: skip
    ax.axvline(base, color="black", linewidth=1.2)
    ax.set_yticks(range(len(bars)), [LABELS[bar.name] for bar in reversed(bars)])
    ends = [end for bar in bars for end in (bar.at_low, bar.at_high)]
    _logarithmic(ax.xaxis, min(ends) / 4, max(ends) * 2.2)
    ax.set_xlabel("$ per 1M output, by reservation")
    ax.grid(axis="y", visible=False)
    return ax
