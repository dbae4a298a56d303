"""What all figures share: one style, panels, and the line below that says where the numbers come from."""

import functools
import textwrap
from collections.abc import Callable, Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from specbook.records.experiment import ExperimentRecord
from specbook.records.run import RunRecord
from specbook.report.figures import tooltips
from specbook.report.figures.tooltips import Reading
from specbook.stats.ratios import MIN_INTERVAL

# Okabe & Ito: told apart under every common colour blindness, and in print.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DOMAINS = ("json", "math", "chat", "code", "prose", "sql", "mixed")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE = {
    "font.size": 11, "axes.titlesize": 12, "axes.labelsize": 11, "xtick.labelsize": 10, "ytick.labelsize": 10,
    "legend.fontsize": 10, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e3e3e3", "axes.axisbelow": True, "figure.facecolor": "white",
    "savefig.facecolor": "white", "figure.dpi": 144, "savefig.bbox": "tight", "savefig.pad_inches": 0.2,
    "lines.linewidth": 1.8, "lines.markersize": 6,
}  # fmt: skip
LETTERS_PER_INCH = 12  # at the small print's 10 points
plt.switch_backend(
    plt.get_backend()
)  # a notebook's backend sets itself up when loaded: inside a context that is undone
styled = plt.rc_context(STYLE)
"""Decorator: everything a function draws is in the book's style."""


def colour(name: str, among: Sequence[str] = DOMAINS) -> str:
    """The colour of a domain (or of one of `among`): the same in every figure."""
    known = [*among, *DOMAINS]
    return PALETTE[known.index(name) % len(PALETTE)] if name in known else PALETTE[-1]


def marker(name: str, among: Sequence[str] = DOMAINS) -> str:
    """A second sign beside the colour."""
    return MARKERS[list(among).index(name) % len(MARKERS)] if name in among else MARKERS[-1]


def ordered(names: Iterable[str]) -> list[str]:
    """Domains in the book's order, others after them."""
    found = list(dict.fromkeys(names))
    return sorted(found, key=lambda n: (DOMAINS.index(n) if n in DOMAINS else len(DOMAINS), found.index(n)))


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


def or_words(why: str) -> Callable:
    """Decorator: where a figure's first argument, a table, has no rows, `why` stands in its place."""

    def decorate(draw: Callable) -> Callable:
        @functools.wraps(draw)
        def drawn(table: pd.DataFrame, *more: object) -> Axes | list[Axes]:
            return blank(why) if table.empty else draw(table, *more)

        return drawn

    return decorate


@styled
def blank(why: str) -> Axes:
    """A figure that has nothing to show, and says why."""
    (ax,) = panels(1, height=1.0)
    ax.set_axis_off()
    ax.text(0.0, 0.5, why, fontsize=11, va="center")
    return ax


def batches(ax: Axes, values: Iterable[float], label: str = "batch (concurrent requests)") -> None:
    """A logarithmic axis with a tick at each batch that was measured, and nowhere else."""
    ticks = sorted(set(values))
    ax.set_xscale("log", base=2)
    ax.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(label)


def ratio_axis(ax: Axes, values: Iterable[float], label: str = "speed-up over the best baseline (×)") -> None:
    """A logarithmic axis around 1, so that half as fast is as far from the line as twice as fast."""
    known = [v for v in values if v is not None and np.isfinite(v) and v > 0]
    reach = max(1.25, *(max(v, 1 / v) for v in known)) * 1.12
    ax.set_yscale("log", base=2)
    ax.set_ylim(1 / reach, reach)
    ticks = [t for t in (1 / 8, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1, 1.5, 2, 3, 4, 8) if 1 / reach <= t <= reach]
    ax.set_yticks(ticks)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}×"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.axhline(1.0, color="black", linewidth=1.2)
    ax.axhspan(1 / reach, 1.0, color="#D55E00", alpha=0.07, linewidth=0)
    ax.set_ylabel(label)


def with_interval(
    ax: Axes, table: pd.DataFrame, x: str, ends: tuple[str, str, str], reading: Reading, **look: object
) -> None:
    """Points joined by a line, with their interval (`ends`: value, low, high); one without it has no bar.

    Each tells what `points.say` makes of its row.
    """
    y, low, high = ends
    value = table[y].to_numpy(dtype=float)
    bars = np.vstack([value - table[low].to_numpy(dtype=float), table[high].to_numpy(dtype=float) - value])
    ax.errorbar(table[x], value, yerr=np.clip(bars, 0.0, None), capsize=3, **look)
    tooltips.tell(ax, table, x, ends, reading)


def placed(table: pd.DataFrame) -> pd.DataFrame:
    """With `place`: loads side by side as they come, and around each its domains in the book's order."""
    domains, loads = ordered(table["domain"]), list(dict.fromkeys(table["load"]))
    shift = table["domain"].map(lambda domain: (domains.index(domain) - (len(domains) - 1) / 2) * 0.18)
    return table.assign(place=table["load"].map(loads.index) + shift)


def by_load_and_domain(
    ax: Axes, table: pd.DataFrame, ends: tuple[str, str, str], reading: Reading
) -> pd.DataFrame:
    """Points `with_interval` where they are `placed`; returns their table."""
    there, loads = placed(table), list(dict.fromkeys(table["load"]))
    for domain in ordered(table["domain"]):
        look = {"color": colour(domain), "marker": marker(domain), "linestyle": "none", "label": domain}
        with_interval(ax, there[there["domain"] == domain], "place", ends, reading, **look)
    ax.set_xticks(range(len(loads)), loads)
    ax.set_xlim(-0.6, len(loads) - 0.4)
    ax.grid(axis="x", visible=False)
    return there


def marked(
    ax: Axes, table: pd.DataFrame, x: str, ends: tuple[str, str, str], reading: Reading, **look: object
) -> None:
    """Points with their interval (`ends`: value, low, high), hollow where `enough` is False; no line."""
    for enough, face in ((True, look["color"]), (False, "white")):
        some = table[table["enough"] == enough]
        with_interval(ax, some, x, ends, reading, linestyle="none", markerfacecolor=face, **look)


def legend_above(axes: Sequence[Axes], columns: int = 5) -> None:
    """One legend for all panels, over them."""
    fig = axes[0].get_figure()
    entries: dict[str, Artist] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    fig.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def credit(runs: Iterable[RunRecord], also: str = "") -> str:
    """Where numbers come from: `measured · cpu-... · pocket bfloat16 · 5 restarts an arm · 2026-11-21`."""
    runs = list(runs)
    if not runs:
        return "nothing measured"
    restarts = len({run.point.restart for run in runs})
    models = sorted({f"{run.point.target.name} {run.point.target.dtype}" for run in runs})
    turns = f"{restarts} restart{'' if restarts == 1 else 's'} an arm"
    few = ": no intervals" if restarts < MIN_INTERVAL else ""
    return _credit(runs, [", ".join(models), turns + few], also)


def credit_experiments(kept: Iterable[tuple[ExperimentRecord, object]], also: str = "") -> str:
    """As `credit`, of what `experiments.replay` gives: `measured · cpu-... · 2026-11-22`."""
    records = [record for record, _ in kept]
    return _credit(records, [], also) if records else "nothing measured"


def _credit(records: Sequence[RunRecord | ExperimentRecord], between: Sequence[str], also: str) -> str:
    days = sorted({record.started_at[:10] for record in records})
    parts = [
        " and ".join(sorted(set(map(_kind, records)))),
        ", ".join(sorted({record.hardware.id for record in records})),
        *between,
        " to ".join(dict.fromkeys([days[0], days[-1]])),
    ]
    return " · ".join([*parts, *([also] if also else [])])


def _kind(record: RunRecord | ExperimentRecord) -> str:
    """The record's own; where draft tokens were accepted by chance at given rates, that."""
    how = record.point.speculation if isinstance(record, RunRecord) else None
    return "synthetic-acceptance" if how and how.synthetic_acceptance_rates else record.kind


def sign(axes: Axes | Sequence[Axes], runs: Iterable[RunRecord], also: str = "") -> None:
    """Write the credit below the figure; `also` names what in it is not measured."""
    note(axes, credit(runs, also))


def note(axes: Axes | Sequence[Axes], text: str) -> None:
    """A line of small print below the figure, wrapped to its width."""
    first = axes if isinstance(axes, Axes) else axes[0]
    fig: Figure = first.get_figure()
    wrapped = textwrap.fill(text, round(fig.get_figwidth() * LETTERS_PER_INCH))
    fig.supxlabel(wrapped, x=0.01, ha="left", fontsize=10, color="#555555")
