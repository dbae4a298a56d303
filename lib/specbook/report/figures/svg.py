"""A figure as a page shows it: SVG in the page itself, once for a wide screen and once for a phone.

Its colours are variables of the page's style with the figure's own colours as what they fall back to, so that
book/_static/specbook.css can darken it; its letters are text. Each point that was told something is a circle
with a title: a browser shows that without a script, book/_static/figures.js adds keyboard and touch.
"""

import html
import io
import re
import sys

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from specbook.report.figures import responsive, style, tooltips

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


@style.styled
def render(fig: Figure) -> str:
    """HTML: both layouts, of which the page's style shows the one that fits."""
    wide = _svg(fig, "wide")
    with responsive.laid_out(fig):
        slim = _svg(fig, "narrow", "display:none;")
    return f'<div class="sb-figure">{wide}{slim}</div>'


def named(markup: str, alt: str) -> str:
    """The same, with the words that stand for the picture where it is not seen."""
    return markup.replace(UNNAMED, f'aria-label="{html.escape(alt)}"')


def _svg(fig: Figure, layout: str, hidden: str = "") -> str:
    drawn = io.StringIO()
    look = {"svg.fonttype": "none", "svg.hashsalt": layout, "savefig.bbox": "standard"}
    with plt.rc_context(look):
        fig.savefig(drawn, format="svg")
    width, height = 72 * fig.get_size_inches()
    (body,) = BODY.findall(drawn.getvalue())
    body = ATTRIBUTE.sub(r'style="fill: \1"', DROPPED.sub("", body))
    body = BETWEEN.sub("><", COLOUR.sub(r"\1: var(--sb-\2, #\2)", body)).strip()
    return (
        f'<svg class="sb-svg sb-{layout}" viewBox="0 0 {width:g} {height:g}" role="group" {UNNAMED} '
        f'style="{hidden}max-width:{4 / 3 * width:.0f}px;width:100%;height:auto;{INK}">'
        f"{body}{_points(fig)}</svg>"
    )


def _points(fig: Figure) -> str:
    width, height = 72 * fig.get_size_inches()
    marks = [
        f'<circle class="sb-point" cx="{width * point.x:.1f}" cy="{height * (1 - point.y):.1f}" r="{REACH}">'
        f"<title>{html.escape(point.text)}</title></circle>"
        for point in tooltips.of(fig)
    ]
    return f'<g fill="none" pointer-events="all">{"".join(marks)}</g>' if marks else ""


def register() -> None:
    """In a notebook, figures are shown as `render` draws them."""
    module = sys.modules.get("IPython")
    if module and (shell := module.get_ipython()):
        shell.display_formatter.formatters["text/html"].for_type(Figure, render)
