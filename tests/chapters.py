"""A page's notebook, run in this process: what a reader would see, as text.

A kernel takes a minute a page; the cells themselves take seconds. What papermill does is kept: the tagged
cell first, then the parameters, then the rest in one namespace.
"""

import ast
import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
from IPython.display import Markdown
from matplotlib.text import Text

from specbook.analysis import drift
from specbook.report import render
from specbook.stats import percentiles

PROJECT = Path(__file__).parents[1]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
NAMES = tuple(render.pages())
"""Those with a page: a chapter has one once it has records."""
PLANS = {path.stem: render.pages().get(path.stem, path.stem) for path in NOTEBOOKS}
"""The plan of each notebook: that of the chapter whose page it is."""
WIDE = {"display.width": 10_000, "display.max_columns": None, "display.max_rows": None}


def run(page: str, only_visible: bool = False, **parameters: Any) -> str:
    """Run the cells of a page, or the visible ones, with these parameters after those of its tagged cell.

    With fewer draws than in the book: no test reads how wide an interval is, or how rare a false alarm.

    Returns:
        What they showed: sentences, tables, and the words in figures.
    """
    few = partial(drift.compare, replays=10, days=0.1)
    with patch.object(percentiles, "RESAMPLES", 49), patch.object(drift, "compare", few):
        return _run(page, only_visible, parameters)


def _run(page: str, only_visible: bool, parameters: Mapping[str, Any]) -> str:
    shown: list[str] = []
    names = {"__name__": "__main__", "display": lambda *things: shown.extend(map(_text, things))}
    for cell in (cell for cell in cells(page) if cell.cell_type == "code"):
        if only_visible and not visible(cell):
            continue
        shown.extend(_cell(cell.source, names))
        if "parameters" in cell.metadata.get("tags", []):
            names |= parameters
    return "\n\n".join(filter(None, shown))


@cache
def cells(page: str) -> list[nbformat.NotebookNode]:
    """Its cells, as they lie in git; not to be changed."""
    return nbformat.read(PROJECT / "notebooks" / f"{page}.ipynb", as_version=4).cells


def visible(cell: nbformat.NotebookNode) -> bool:
    """Whether the page shows the cell's code without a click."""
    return not {"hide-input", "hide-cell", "remove-input", "remove-cell"} & set(cell.metadata.get("tags", []))


def lines_of_code(page: str) -> dict[bool, int]:
    """Its lines of code, by whether they are visible; a takeaway's are left out, its sentence being prose."""
    lines = {True: 0, False: 0}
    for cell in cells(page):
        if cell.cell_type == "code" and "takeaway(" not in cell.source:
            lines[visible(cell)] += len(cell.source.splitlines())
    return lines


def typed(cells: Iterable[nbformat.NotebookNode]) -> Iterator[str]:
    """Markdown cells and captions."""
    for cell in cells:
        if cell.cell_type == "markdown":
            yield cell.source
        elif "mystnb" in cell.metadata:
            yield cell.metadata.mystnb.figure.caption


def _cell(source: str, names: dict[str, Any]) -> list[str]:
    """Run one cell; what it printed, then what its last line is, unless a semicolon hides that."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
    drawn = [text.get_text() for number in plt.get_fignums() for text in plt.figure(number).findobj(Text)]
    plt.close("all")
    return [printed.getvalue(), _text(value), "\n".join(dict.fromkeys(drawn))]


def _text(thing: Any) -> str:
    """What a page would show of an object."""
    if isinstance(thing, Markdown):
        return thing.data
    if isinstance(thing, pd.DataFrame | pd.Series):
        with pd.option_context(*(part for pair in WIDE.items() for part in pair)):
            return str(thing)
    return "" if thing is None else str(thing)
