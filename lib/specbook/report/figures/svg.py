"""A figure as a page shows it: SVG in the page itself, once for a wide screen and once for a phone.

A phone's has fewer panels in a row, a narrower legend, and small print wrapped sooner: its letters are as
large as the page's. Colours are variables that fall back to the figure's own, so that
book/_static/specbook.css can darken it; letters are text. Each point with a tooltip is a circle with a title:
a browser shows that without a script, book/_static/figures.js adds keyboard and touch.
"""

import html
import io
import re
import sys
from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec

from specbook.report.figures import style

UNNAMED = 'aria-label="figure"'
REACH = 9
"""Radius of what a pointer hits, in points."""
INK = "font-family:'DejaVu Sans',Verdana,sans-serif;fill:var(--sb-000000,#000);stroke-linejoin:round"
BODY = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)
DROPPED = re.compile(
    r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->"  # that style is for all pages
    r"|(?<=<g) id=\"[^\"]*\"|font-family: [^;\"]*;? ?",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r'\bfill="(#[0-9a-f]{6})"')
COLOUR = re.compile(r"\b(fill|stroke): #([0-9a-f]{6})")
BETWEEN = re.compile(r">\s+<")
PHONE = 4.4
"""Inches of width on a phone."""
ROW = 2.8
"""Inches of height for a row of panels on a phone, where there are several."""
MARGIN = 0.5
"""Inches for the lines that the legend and the small print have more on a phone."""
LETTER, SIGN = 0.085, 0.6
"""Inches of a letter and of a sign in the legend."""


@style.styled
def render(fig: Figure) -> str:
    """HTML: both layouts, of which the page's style shows the one that fits; the figure is left as it was."""
    wide = _svg(fig, "wide")
    axes = [ax for ax in fig.axes if ax.get_subplotspec() is not None]
    specs, size, legends = [ax.get_subplotspec() for ax in axes], fig.get_size_inches().copy(), fig.legends[:]
    columns = max(1, int(PHONE / (size[0] / specs[0].get_gridspec().ncols)))
    rows = -(-len(axes) // columns)
    grid = GridSpec(rows, columns, figure=fig)
    labels = [label for ax in axes for label in ax.get_legend_handles_labels()[1]]
    height = MARGIN + (ROW * rows if rows > 1 else size[1])
    _lay_out(fig, axes, (PHONE, height), [grid[i] for i in range(len(axes))])
    if legends:
        fig.legends.clear()
        style.legend_above(axes, max(1, int(PHONE / (SIGN + LETTER * max(map(len, labels))))))
    narrow = _svg(fig, "narrow", "display:none;")
    _lay_out(fig, axes, size, specs)
    fig.legends[:] = legends
    return f'<div class="sb-figure">{wide}{narrow}</div>'


def named(markup: str, alt: str) -> str:
    """The same, with the words that stand for the picture where it is not seen."""
    return markup.replace(UNNAMED, f'aria-label="{html.escape(alt)}"')


def _svg(fig: Figure, layout: str, hidden: str = "") -> str:
    drawn = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": layout, "savefig.bbox": "standard"}):
        fig.savefig(drawn, format="svg")
    width, height = 72 * fig.get_size_inches()
    (body,) = BODY.findall(drawn.getvalue())
    body = ATTRIBUTE.sub(r'style="fill: \1"', DROPPED.sub("", body))
    body = BETWEEN.sub("><", COLOUR.sub(r"\1: var(--sb-\2, #\2)", body)).strip()
    circles = ""
    for tooltips in fig.findobj(style.Tooltips):
        for place, text in zip(tooltips.places, tooltips.texts, strict=True):
            x, y = tooltips.axes.transData.transform(place) / fig.bbox.size  # shares, from the lower left
            circles += (
                f'<circle class="sb-point" cx="{width * x:.1f}" cy="{height * (1 - y):.1f}" r="{REACH}">'
                f"<title>{html.escape(text)}</title></circle>"
            )
    over = f'<g fill="none" pointer-events="all">{circles}</g>' if circles else ""
    return (
        f'<svg class="sb-svg sb-{layout}" viewBox="0 0 {width:g} {height:g}" role="group" {UNNAMED} '
        f'style="{hidden}max-width:{4 / 3 * width:.0f}px;width:100%;height:auto;{INK}">{body}{over}</svg>'
    )


def _lay_out(
    fig: Figure, axes: Sequence[Axes], size: tuple[float, float], specs: Sequence[SubplotSpec]
) -> None:
    """Give the figure a size in inches and its panels their places; wrap the small print to the width."""
    fig.set_size_inches(size)
    for ax, spec in zip(axes, specs, strict=True):
        ax.set_subplotspec(spec)
        if len(axes) > 1 and ax.get_shared_y_axes().joined(ax, axes[0] if ax is not axes[0] else axes[1]):
            ax.tick_params(axis="y", labelleft=spec.is_first_col())
    if text := fig.get_supxlabel():
        style.note(axes, " ".join(text.split()))


def register() -> None:
    """In a notebook, figures are shown as `render` draws them, and not drawn once more before that."""
    module = sys.modules.get("IPython")
    if module and (shell := module.get_ipython()):
        plt.uninstall_repl_displayhook()
        shell.display_formatter.formatters["text/html"].for_type(Figure, render)
