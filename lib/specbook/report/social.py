"""A Sphinx extension: what a link to a page shows where it is shared, its title and the book's figure."""

from html import escape
from typing import Any

from sphinx.application import Sphinx

PICTURE = "_static/headline.png"


def add(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Put both into a page's head; the figure's address is whole where `html.baseurl` is known."""
    base = app.config.html_baseurl.rstrip("/")
    picture = f"{base}/{PICTURE}" if base else context["pathto"](PICTURE, 1)
    shown = {"title": context.get("title", ""), "image": picture}
    tags = (f'<meta property="og:{name}" content="{escape(value)}" />\n' for name, value in shown.items())
    context["metatags"] = context.get("metatags", "") + "".join(tags)  # the search page has none


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it."""
    app.connect("html-page-context", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
