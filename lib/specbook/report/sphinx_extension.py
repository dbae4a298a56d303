"""A Sphinx extension: formulas as MathML, which browsers and the PDF draw without a script from elsewhere;
and what a link to a page shows where it is shared, its title and the book's figure.
"""

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

PICTURE = "_static/headline.png"


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """A formula in a sentence."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own; a wide one scrolls."""
    writer.body.append(f'<div class="sb-math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def add_preview(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Put the page's title and the book's figure into its head; the figure's address is whole where
    `html.baseurl` is known."""
    base = app.config.html_baseurl.rstrip("/")
    picture = f"{base}/{PICTURE}" if base else context["pathto"](PICTURE, 1)
    shown = {"title": context.get("title", ""), "image": picture}
    tags = (f'<meta property="og:{name}" content="{escape(value)}" />\n' for name, value in shown.items())
    context["metatags"] = context.get("metatags", "") + "".join(tags)  # the search page has none


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both; a TeX command that docutils does not know is a warning, and so fails the build."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("html-page-context", add_preview)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
