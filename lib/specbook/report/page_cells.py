"""A notebook that papermill ran -> the cells of its page."""

from collections.abc import Mapping
from typing import Any

import nbformat

from specbook import paths
from specbook.report import sliders, sphinx_roles
from specbook.report.figures import svg as drawing

INJECTED = "injected-parameters"


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what differs from run to run or needs a kernel (timings, paths, progress bars, widgets), and
    with what a page has instead: sliders that work, figures that are named, roles for links.
    """
    widgets = notebook.metadata.get("widgets", {})
    drawn = {name for cell in notebook.cells if (name := _figure_name(cell)) is not None}
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if INJECTED in cell.metadata.get("tags", []):
            cell.id = INJECTED
        if cell.cell_type == "code":
            cell.outputs = _outputs(cell, widgets)
        else:
            cell.source = sphinx_roles.as_roles(cell.source, drawn)
    return notebook


def _figure_name(cell: nbformat.NotebookNode) -> str | None:
    """The label of the figure that a cell drew; None if it drew none, for example before it is measured."""
    drew = any("text/html" in output.get("data", {}) for output in cell.get("outputs", []))
    return cell.metadata.get("mystnb", {}).get("figure", {}).get("name") if drew else None


def _outputs(cell: nbformat.NotebookNode, widgets: Mapping[str, Any]) -> list[nbformat.NotebookNode]:
    """What a page shows of a cell's outputs."""
    kept = (sliders.still(output, widgets) for output in cell.outputs if output.get("name") != "stderr")
    return [_drawn(cell, _portable(output)) for output in kept if output is not None]


def _drawn(cell: nbformat.NotebookNode, output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A figure as a drawing only, with the words for who cannot see it."""
    if "mystnb" in cell.metadata and "text/html" in output.get("data", {}):
        output.data = {"text/html": drawing.named(output.data["text/html"], cell.metadata.mystnb.image.alt)}
        output.metadata = {}
    return output


def _portable(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if output.output_type == "stream":
        output.text = paths.portable(output.text)
    for mime, body in output.get("data", {}).items():
        if isinstance(body, str) and mime.startswith("text/"):
            output.data[mime] = paths.portable(body)
    return output
