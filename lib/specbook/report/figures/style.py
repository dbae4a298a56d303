"""What all figures share: one style, panels, what a point says when a reader points at it, and the line below
that says where the numbers come from.
"""

import functools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from specbook.analysis import traffic
from specbook.records.run import RunRecord
from specbook.report import provenance_line

# Okabe & Ito: told apart under every common colour blindness, and in print.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DOMAINS = ("json", "math", "chat", "code", "prose", "sql", "mixed")
METHODS = ("P-EAGLE", "EAGLE-3", "draft model", "suffix", "ngram")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE = {
    "font.size": 11, "axes.titlesize": 12, "axes.labelsize": 11, "xtick.labelsize": 10, "ytick.labelsize": 10,
    "legend.fontsize": 10, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e3e3e3", "axes.axisbelow": True, "figure.facecolor": "white",
    "savefig.facecolor": "white", "figure.dpi": 144, "savefig.bbox": "tight", "savefig.pad_inches": 0.2,
    "lines.linewidth": 1.8, "lines.markersize": 6,
}  # fmt: skip
LETTERS_PER_INCH = 12  # at the small print's 10 points
NAME_LETTERS = 9
"""Letters of a name below an axis, on one line: `gsm-symbolic` beside `sharegpt` touched it."""
PANELS_SHARE = 0.85
"""Of a figure's width, what its panels have; the rest is for their axes."""
LABEL_WIDTH, LEADER, LABELS_APART, TOP = 0.3, 0.05, 0.1, 0.95
"""Room right of the lines for their names, the part of it that leads from a line to its name, the least
distance between two, and the highest, which is below the title: shares of the axes."""
K = "num_speculative_tokens"
NO_PAIR = "No round here has both a baseline and an arm with speculation."
MOST_IDS = 5
"""Records named one by one; of more, the count is said."""
# A notebook's backend sets itself up when it is loaded: inside a context that would be undone.
plt.switch_backend(plt.get_backend())
styled = plt.rc_context(STYLE)
"""Decorator: everything a function draws is in the book's style."""


def colour(name: str, among: Sequence[str] = DOMAINS) -> str:
    """The colour of a domain (or of one of `among`): the same in every figure."""
    names = [*among, *DOMAINS]
    return PALETTE[names.index(name) % len(PALETTE)] if name in names else PALETTE[-1]


def marker(name: str, among: Sequence[str] = DOMAINS) -> str:
    """A second sign beside the colour."""
    return MARKERS[list(among).index(name) % len(MARKERS)] if name in among else MARKERS[-1]


def look(name: str, among: Sequence[str] = DOMAINS) -> dict[str, str]:
    """Colour, marker and label of a domain (or of one of `among`), as arguments of a plot."""
    return {"color": colour(name, among), "marker": marker(name, among), "label": name}


def ordered(names: Iterable[str], among: Sequence[str] = DOMAINS) -> list[str]:
    """Domains (or some of `among`) in the book's order, others after them."""
    return sorted(dict.fromkeys(names), key=lambda n: among.index(n) if n in among else len(among))


@styled
def panels(n: int, height: float = 3.3, share_y: bool = False, columns: int = 4) -> list[Axes]:
    """`n` panels, `columns` to a row, as wide as the page's text."""
    columns = min(n, columns)
    rows = -(-n // columns)
    _, axes = plt.subplots(
        rows, columns, figsize=(8.6 if columns > 1 else 7.2, height * rows), sharey=share_y, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for spare in axes.flat[n:]:
        spare.remove()
    return list(axes.flat[:n])


def panel_for_each(names: Iterable[str], **layout: Any) -> dict[str, Axes]:
    """A panel with its title for each of the names; `layout`: see `panels`."""
    titles = list(dict.fromkeys(names))
    axes = dict(zip(titles, panels(len(titles), **layout), strict=True))
    for title, ax in axes.items():
        ax.set_title(title)
    return axes


def or_words(why: str) -> Callable:
    """Decorator: as `styled`; where the first argument, a table, has no rows, `why` stands in its place."""

    def decorate(draw: Callable) -> Callable:
        @styled
        @functools.wraps(draw)
        def drawn(table: pd.DataFrame, *more: object) -> Axes | list[Axes]:
            if not table.empty:
                return draw(table, *more)
            (ax,) = panels(1, height=1.0)
            ax.set_axis_off()
            ax.text(0.0, 0.5, why, fontsize=11, va="center")
            return ax

        return drawn

    return decorate


def batches(ax: Axes, values: Iterable[float], label: str = "batch (concurrent requests)") -> None:
    """A logarithmic axis with a tick at each batch that was measured, and nowhere else."""
    ticks = sorted(set(values))
    ax.set_xscale("log", base=2)
    ax.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(label)


def ratio_axis(ax: Axes, values: Iterable[float]) -> None:
    """A logarithmic axis around 1, so that half as fast is as far from the line as twice as fast."""
    positive = [v for v in values if v is not None and np.isfinite(v) and v > 0]
    reach = max(1.25, *(max(v, 1 / v) for v in positive)) * 1.12
    ax.set_yscale("log", base=2)
    ax.set_ylim(1 / reach, reach)
    ticks = [t for t in (1 / 8, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1, 1.5, 2, 3, 4, 8) if 1 / reach <= t <= reach]
    ax.set_yticks(ticks)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}×"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.axhline(1.0, color="black", linewidth=1.2)
    ax.axhspan(1 / reach, 1.0, color="#D55E00", alpha=0.07, linewidth=0)


class Reading(NamedTuple):
    """How a value is written: its digits, and what stands once behind it."""

    digits: str = "{:.3g}"
    unit: str = ""


class Tooltips(Artist):
    """Draws nothing: remembers what points at data coordinates say, until the figure is laid out."""

    def __init__(self, xs: Iterable[float], ys: Iterable[float], texts: Iterable[str]) -> None:
        super().__init__()
        self.places = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
        self.texts = list(texts)


def tooltip(row: pd.Series, ends: Sequence[float | None], reading: Reading) -> str:
    """Three lines: where, the value with its interval and n, and the records behind it.

    Args:
        row: may have domain, load (or concurrency, or rate_per_s), arm, metric and q, `estimate` (for its
            n) and `records`.
        ends: value, low, high.
        reading: how they are written.
    """
    value, *interval = (None if pd.isna(end) else reading.digits.format(end) for end in ends)
    span = "no interval" if None in interval else f"[{', '.join(map(str, interval))}]"
    estimate, ids = row.get("estimate"), row.get("records")
    n = f", n={estimate.counted}" if estimate is not None else ""
    lines = [_where(row), f"{value}{reading.unit} {span}{n}"]
    if ids:
        more = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
        lines.append(f"record{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:MOST_IDS]))}{more}")
    return "\n".join(lines)


def _where(row: pd.Series) -> str:
    load = row.get("load")
    if load is None and row.get("rate_per_s") is not None:
        load = f"{row['rate_per_s']:g} requests/s"
    if load is None and row.get("concurrency") is not None:
        load = f"batch {row['concurrency']:g}"
    clock = f"p{100 * row['q']:g} {row['metric'].removesuffix('_s').upper()}" if "q" in row else None
    return ", ".join(str(part) for part in (clock, row.get("domain"), load, row.get("arm")) if part)


def with_interval(
    ax: Axes, table: pd.DataFrame, x: str, ends: tuple[str, str, str], reading: Reading, **look: object
) -> None:
    """Points joined by a line, with their interval (`ends`: value, low, high); one without it has no bar.

    Each row that has a value says its `tooltip`.
    """
    y, low, high = ends
    value = table[y].to_numpy(dtype=float)
    bars = np.vstack([value - table[low].to_numpy(dtype=float), table[high].to_numpy(dtype=float) - value])
    ax.errorbar(table[x], value, yerr=np.clip(bars, 0.0, None), capsize=3, **look)
    drawn = table[table[y].notna()]
    texts = [tooltip(row, [row[name] for name in ends], reading) for _, row in drawn.iterrows()]
    ax.add_artist(Tooltips(drawn[x], drawn[y], texts))


def marked(
    ax: Axes, table: pd.DataFrame, x: str, ends: tuple[str, str, str], reading: Reading, **look: object
) -> None:
    """Points with their interval (`ends`: value, low, high), hollow where `enough` is False; no line."""
    for enough, face in ((True, look["color"]), (False, "white")):
        some = table[table["enough"] == enough]
        with_interval(ax, some, x, ends, reading, linestyle="none", markerfacecolor=face, **look)


def placed(table: pd.DataFrame) -> pd.DataFrame:
    """With `place`: loads side by side as they come, and around each its domains in the book's order."""
    domains, loads = ordered(table["domain"]), list(dict.fromkeys(table["load"]))
    aside = table["domain"].map(lambda domain: (domains.index(domain) - (len(domains) - 1) / 2) * 0.18)
    return table.assign(place=table["load"].map(loads.index) + aside)


def names_axis(ax: Axes, names: Sequence[str]) -> None:
    """A tick for each name, a long one broken at its hyphen, and no line of the grid.

    Where the names would touch each other they are slanted, and whole.
    """
    lines = [textwrap.fill(name, NAME_LETTERS, break_long_words=False) for name in names]
    panel = PANELS_SHARE * ax.get_figure(root=True).get_figwidth() / ax.get_gridspec().ncols  # inches
    widest = max(map(len, "\n".join(lines).split("\n")))
    if widest * len(names) <= LETTERS_PER_INCH * panel:
        ax.set_xticks(range(len(names)), lines)
    else:
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
    ax.grid(axis="x", visible=False)


def by_load_and_domain(
    ax: Axes, table: pd.DataFrame, ends: tuple[str, str, str], reading: Reading
) -> pd.DataFrame:
    """Points `with_interval` where they are `placed`; returns their table."""
    there, loads = placed(table), list(dict.fromkeys(table["load"]))
    for domain in ordered(table["domain"]):
        points = there[there["domain"] == domain]
        with_interval(ax, points, "place", ends, reading, linestyle="none", **look(domain))
    names_axis(ax, loads)
    ax.set_xlim(-0.6, len(loads) - 0.4)
    return there


def by_load_and_method(table: pd.DataFrame, ends: tuple[str, str, str], reading: Reading) -> list[Axes]:
    """A panel per load and method: a line per domain against K; those of open-ended domains are dashed."""
    cells = list(table.groupby(["load", "method"], sort=False))
    axes = panels(len(cells), height=3.4, share_y=True, columns=2)
    for ax, ((load, method), cell) in zip(axes, cells, strict=True):
        for domain in ordered(cell["domain"]):
            line = "--" if traffic.kind(domain) == traffic.OPEN else "-"
            points = cell[cell["domain"] == domain].sort_values(K)
            with_interval(ax, points, K, ends, reading, linestyle=line, **look(domain))
        k_axis(ax, table, edge=0.7)
        ax.set_title(f"{method}, {load}")
    return axes


def below_the_line(ax: Axes, words: str) -> None:
    """Words in the lower left corner, where values are losses."""
    ax.text(0.01, 0.02, words, transform=ax.transAxes, fontsize=10, color="#a04000")


def k_axis(ax: Axes, table: pd.DataFrame, edge: float = 0.5) -> None:
    """A tick at each K of the table, and nowhere else."""
    ticks = sorted(set(table[K]))
    ax.set_xticks(ticks)
    ax.set_xlim(ticks[0] - edge, ticks[-1] + edge)
    ax.set_xlabel("K, draft tokens per step")


def name_lines(ax: Axes, ends: Mapping[str, tuple[float, float]], among: Sequence[str] = DOMAINS) -> None:
    """Names right of the last points of their lines (`ends`), in place of a legend, none over another.

    The limits of y are to be final.
    """
    if not ends:
        return
    left, right = ax.get_xlim()
    width = right - left
    ax.set_xlim(left, right + LABEL_WIDTH * width)
    ax.get_ylim()  # brings what was drawn into the transformation
    heights = {name: (ax.transData - ax.transAxes).transform(end)[1] for name, end in ends.items()}
    names, apart = sorted(heights, key=heights.__getitem__), LABELS_APART * np.arange(len(ends))
    nearest = _rising([heights[name] for name in names] - apart)
    for name, place in zip(names, apart + nearest.clip(max=TOP - apart[-1]), strict=True):
        hue = colour(name, among)
        ax.annotate(
            name, ends[name], xytext=(ends[name][0] + LEADER * width, place), color=hue, fontsize=10,
            textcoords=ax.get_xaxis_transform(), va="center",
            arrowprops={"arrowstyle": "-", "color": hue, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},  # over the line at 1
        )  # fmt: skip


def _rising(values: np.ndarray) -> np.ndarray:
    """The numbers nearest to a few values of which none is less than the one before (isotonic regression)."""
    n = len(values)
    lows = [[min(values[j : k + 1].mean() for k in range(i, n)) for j in range(i + 1)] for i in range(n)]
    return np.array([max(each) for each in lows])


def finish(axes: Iterable[Axes], label: str, columns: int = 5) -> list[Axes]:
    """The panels, with a label of the first's y axis, and one legend for all over them."""
    axes = list(axes)
    axes[0].set_ylabel(label)
    legend_above(axes, columns)
    return axes


def legend_above(axes: Sequence[Axes], columns: int = 5) -> None:
    """One legend for all panels, over them."""
    entries: dict[str, Artist] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    axes[0].get_figure().legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def sign(axes: Axes | Sequence[Axes], runs: Iterable[RunRecord], also: str = "") -> None:
    """Write `provenance_line.credit` below the figure; `also` names what in it is not measured."""
    note(axes, provenance_line.credit(runs, also))


def note(axes: Axes | Sequence[Axes], text: str) -> None:
    """A line of small print below the figure, wrapped to its width."""
    first = axes if isinstance(axes, Axes) else axes[0]
    fig: Figure = first.get_figure()
    wrapped = textwrap.fill(text, round(fig.get_figwidth() * LETTERS_PER_INCH))
    fig.supxlabel(wrapped, x=0.01, ha="left", fontsize=10, color="#555555")
