"""A figure laid out for a phone: fewer panels in a row, a narrower legend, small print wrapped sooner."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec

from specbook.report.figures import style

WIDTH = 4.4
"""Inches: its letters are as large on a phone as the page's own small print."""
ROW = 2.8
"""Inches of height for a row of panels, where there are several."""
MARGIN = 0.5
"""Inches for the lines that the legend and the small print have more than before."""
LETTER, SIGN = 0.085, 0.6
"""Inches of a letter and of a sign in the legend."""


@contextmanager
def laid_out(fig: Figure) -> Iterator[None]:
    """Inside, the figure is narrow; afterwards it is as it was."""
    axes = [ax for ax in fig.axes if ax.get_subplotspec() is not None]
    before, size, legends = (
        [ax.get_subplotspec() for ax in axes],
        fig.get_size_inches().copy(),
        fig.legends[:],
    )
    try:
        _place(axes, _specs(fig, axes))
        _write(fig, axes)
        if legends:
            fig.legends.clear()
            style.legend_above(axes, _columns(axes))
        yield
    finally:
        fig.set_size_inches(size)
        _place(axes, before)
        _write(fig, axes)
        fig.legends[:] = legends


def _specs(fig: Figure, axes: Sequence[Axes]) -> list[SubplotSpec]:
    """Places in as many columns as keep the panels' width; the figure gets its size for them."""
    width, height = fig.get_size_inches()
    columns = max(1, int(WIDTH / (width / axes[0].get_gridspec().ncols)))
    rows = -(-len(axes) // columns)
    fig.set_size_inches(WIDTH, MARGIN + (ROW * rows if rows > 1 else height))
    grid = GridSpec(rows, columns, figure=fig)
    return [grid[i // columns, i % columns] for i in range(len(axes))]


def _place(axes: Sequence[Axes], specs: Sequence[SubplotSpec]) -> None:
    for ax, spec in zip(axes, specs, strict=True):
        ax.set_subplotspec(spec)
        if len(axes) > 1 and ax.get_shared_y_axes().joined(ax, axes[0] if ax is not axes[0] else axes[1]):
            ax.tick_params(axis="y", labelleft=spec.is_first_col())


def _write(fig: Figure, axes: Sequence[Axes]) -> None:
    """The small print again, wrapped to the width."""
    if text := fig.get_supxlabel():
        style.note(axes, " ".join(text.split()))


def _columns(axes: Sequence[Axes]) -> int:
    labels = [label for ax in axes for label in ax.get_legend_handles_labels()[1]]
    return max(1, int(WIDTH / (SIGN + LETTER * max(map(len, labels)))))
