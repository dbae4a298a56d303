"""Figures of the Trainium chapter: structured and open-ended domains against K, a panel a method and load."""

import pandas as pd
from matplotlib.axes import Axes

from specbook.analysis import traffic
from specbook.report.figures import speculation_figures, style
from specbook.report.figures.style import colour, marker, ordered, styled
from specbook.report.figures.tooltips import Reading

K = "num_speculative_tokens"


@styled
@style.or_words(speculation_figures.NO_PAIR)
def gains(table: pd.DataFrame) -> list[Axes]:
    """Rows of `speedup.speedups` with speculation: speed-up against K; open-ended domains are dashed."""
    axes = _panels(table, ("speedup", "low", "high"), Reading("{:.2f}", "×"))
    for ax in axes:
        style.ratio_axis(ax, [*table["speedup"], *table["low"], *table["high"]], "")
    axes[0].set_ylabel("speed-up over the baseline")
    style.legend_above(axes, 5)
    return axes


@styled
@style.or_words(speculation_figures.NO_DRAFT)
def lengths(table: pd.DataFrame) -> list[Axes]:
    """Rows of `acceptance.by_domain`: acceptance length against K, under its ceiling K + 1."""
    axes = _panels(table, ("length", "length_low", "length_high"), Reading("{:.2f}", " tokens/step"))
    ticks = sorted(set(table[K]))
    for ax in axes:
        ax.plot(ticks, [k + 1 for k in ticks], ":", color="black", label="all accepted (K + 1)")
        ax.set_ylim(1, max(ticks) + 1.5)
    axes[0].set_ylabel("tokens per verification step")
    style.legend_above(axes, 5)
    return axes


def _panels(table: pd.DataFrame, ends: tuple[str, str, str], reading: Reading) -> list[Axes]:
    cells = list(table.groupby(["load", "method"], sort=False))
    axes = style.panels(len(cells), height=3.4, share_y=True, columns=2)
    ticks = sorted(set(table[K]))
    for ax, ((load, method), cell) in zip(axes, cells, strict=True):
        for domain in ordered(cell["domain"]):
            line = "--" if traffic.kind(domain) == traffic.OPEN else "-"
            look = {"color": colour(domain), "marker": marker(domain), "linestyle": line, "label": domain}
            style.with_interval(ax, cell[cell["domain"] == domain].sort_values(K), K, ends, reading, **look)
        ax.set_xticks(ticks)
        ax.set_xlim(ticks[0] - 0.7, ticks[-1] + 0.7)
        ax.set_xlabel("K, draft tokens per step")
        ax.set_title(f"{method}, {load}")
    return axes
