"""Notebooks that papermill ran -> the pages of one book: all of one hardware and group, and a note in place
of each that has no plan there.

A page needs no kernel: sliders become HTML with a script of ours, and what differs from run to run is gone.
A notebook's links are plain Markdown, which JupyterLab shows; on a page they become Sphinx's roles.
`[the figure below](#fig-speed)` gets the figure's number, `[TTFT](../book/glossary.md "TTFT")` the glossary's
definition, `[Student, 1908](../book/references.md "student1908")` a citation by its keys, and a link to a
notebook leads to its page, measured or not.
"""

import html
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from nbformat import NotebookNode

from specbook import paths
from specbook.errors import ConfigError
from specbook.report.figures import svg

STAMP = "specbook"
"""Key of a notebook's metadata that says which plan its outputs are of."""
INJECTED = "injected-parameters"
ANSWER = "answer"
"""Tag of the cell whose output a page shows below its question, before the code that computes it."""
FIGURE = re.compile(r"\[([^\]]+)\]\(#(fig-[a-z0-9-]+)\)")
ROLES = (
    (re.compile(r'\[([^\]]+)\]\(\.\./book/glossary\.md "([^"]+)"\)'), r"{term}`\1 <\2>`"),
    (re.compile(r'\[[^\]]+\]\(\.\./book/references\.md "([^"]+)"\)'), r"{cite:p}`\1`"),
    (re.compile(r"\[([^\]]+)\]\((\d\d_[a-z0-9_]+)\.ipynb\)"), r"{doc}`\1 <\2>`"),
    (re.compile(r"\]\(\.\./book/"), "](../"),  # executed notebooks lie in a folder of book/
)
WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_STATES = "application/vnd.jupyter.widget-state+json"
SLIDERS = {
    "k": "K, draft tokens a step", "acceptance": "Acceptance of each draft token",
    "draft_cost": "A draft token, in steps", "fixed_cost": "Fixed part of a step, in steps",
}  # fmt: skip
"""The parameters of `speedup_figures.play`, which book/_static/player.js repeats."""
FORM = """<noscript><p>The sliders need a script; the figure above has nine of their settings.</p></noscript>
<div id="player" class="sb-two" hidden>
<form class="sb-fields">{fields}</form>
<div class="sb-head"><div class="sb-tile sb-main" aria-live="polite"><b>Speed-up, computed</b>
<output></output><small></small></div></div>
<div class="sb-results sb-charts"><figure></figure></div>
</div>
{scripts}
"""


def stamp(notebook: NotebookNode, hardware: str, group: str) -> None:
    """Note which plan an executed notebook shows."""
    notebook.metadata[STAMP] = {"hardware": hardware, "group": group}


def name_sources(notebook: NotebookNode, page: str, plan: Path) -> None:
    """Add what a page is made of: its notebook, its plan, for download, and where records are."""
    name = plan.relative_to(paths.root())
    text = (
        f"**This page** is `notebooks/{page}.ipynb` (in the download menu at the top), run with "
        f"{{download}}`{name} </{name}>` on records in `results/`."
    )
    notebook.cells.append(nbformat.v4.new_markdown_cell(text, id="sources"))


def put(folder: Path, name: str, text: str) -> None:
    """Write what a page of prose includes into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def figure(name: str, drawn: Figure, alt: str, caption: str) -> str:
    """A figure for a page of prose, which glue does not reach; `drawn` is closed."""
    markup = svg.named(svg.render(drawn), alt)
    plt.close(drawn)
    end = f"<figcaption>\n{caption}\n</figcaption></figure>"
    return f'```{{raw}} html\n<figure id="{name}">{markup}\n{end}\n```'


def make_room(folder: Path, pages: Mapping[str, str], made: Collection[str], hardware: str) -> None:
    """Before a book of the chapters `made`: take away what other books left, and say what this one lacks.

    `pages`: each with its chapter.
    """
    for page, chapter in pages.items():
        (folder / f"{page}.md").unlink(missing_ok=True)
        if chapter not in made:
            (folder / f"{page}.ipynb").unlink(missing_ok=True)
            note = (
                f"# {chapter[:2]}: nothing measured\n\n`params/{hardware}/` has no plan for this chapter, "
                f"so there is nothing of it here. With a plan at `params/{hardware}/{chapter}.yaml`, "
                f"`specbook run {chapter} --hardware {hardware}` measures it.\n"
            )
            put(folder, f"{page}.md", note)


def check(folder: Path, pages: Collection[str]) -> None:
    """Every page is there, and all are of one hardware and group.

    Raises:
        ConfigError: naming what is missing, or whose pages are mixed.
    """
    missing = [
        name for name in pages if not any((folder / f"{name}{e}").is_file() for e in (".ipynb", ".md"))
    ]
    if missing:
        raise ConfigError(f"not executed yet: {', '.join(missing)}. `specbook book` executes them first")
    executed = [name for name in pages if (folder / f"{name}.ipynb").is_file()]
    plans = {name: _plan(folder / f"{name}.ipynb") for name in executed}
    if len(set(plans.values())) > 1:
        each = ", ".join(f"{name} of {plan}" for name, plan in plans.items())
        raise ConfigError(f"executed pages of several plans: {each}. `specbook book` makes them anew")


def _plan(page: Path) -> str:
    plan = nbformat.read(page, as_version=4).metadata.get(STAMP, {})
    return f"{plan.get('hardware', 'unknown')}/{plan.get('group', 'unknown')}"


def clean(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs from run to run or needs a kernel (timings, paths, progress bars,
    widgets), and with what a page has instead: sliders that work, figures that are named, roles for links,
    the answer below the question.
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
            outputs = (still(one, widgets) for one in cell.outputs if not _silent(one))
            cell.outputs = [_on_page(cell, one) for one in outputs if one is not None]
        else:
            cell.source = as_roles(cell.source, drawn)
    answers = [cell for cell in notebook.cells if ANSWER in cell.metadata.get("tags", [])]
    rest = [cell for cell in notebook.cells if cell not in answers]
    notebook.cells = [*rest[:1], *answers, *rest[1:]]
    return notebook


def _silent(output: NotebookNode) -> bool:
    """What a page leaves out: stderr, and a sentence that has nothing to say."""
    return output.get("name") == "stderr" or output.get("data", {}).get("text/markdown") == ""


def _figure_name(cell: NotebookNode) -> str | None:
    """The label of the figure that a cell drew; None if it drew none, for example before it is measured."""
    drew = any("text/html" in output.get("data", {}) for output in cell.get("outputs", []))
    return cell.metadata.get("mystnb", {}).get("figure", {}).get("name") if drew else None


def _on_page(cell: NotebookNode, output: NotebookNode) -> NotebookNode:
    """Without this machine's folders; a figure as a drawing only, with the words for who cannot see it."""
    if output.output_type == "stream":
        output.text = paths.portable(output.text)
    for mime, body in output.get("data", {}).items():
        if isinstance(body, str) and mime.startswith("text/"):
            output.data[mime] = paths.portable(body)
    if "mystnb" in cell.metadata and "text/html" in output.get("data", {}):
        output.data = {"text/html": svg.named(output.data["text/html"], cell.metadata.mystnb.image.alt)}
        output.metadata = {}
    return output


def as_roles(markdown: str, drawn: Collection[str]) -> str:
    """The text of a notebook's cell as a page takes it; figures that are not in `drawn` get no link."""

    def figure(link: re.Match) -> str:
        words, name = link.groups()
        return f"{{numref}}`{name}`" if name in drawn else f"{words} (not measured yet)"

    markdown = FIGURE.sub(figure, markdown)
    for plain, role in ROLES:
        markdown = plain.sub(role, markdown)
    return markdown


def still(output: NotebookNode, widgets: Mapping[str, Any]) -> NotebookNode | None:
    """A cell's output as it works without a kernel: SLIDERS as HTML, any other widget not at all.

    `widgets`: the notebook's metadata of that name, with all states.
    """
    if WIDGET not in output.get("data", {}):
        return output
    states = widgets.get(WIDGET_STATES, {}).get("state", {})
    sliders = {one["description"]: one for one in _sliders(output.data[WIDGET]["model_id"], states)}
    if set(sliders) != set(SLIDERS):
        return None
    fields = "".join(
        f'<label><span>{html.escape(SLIDERS[name])} <b></b></span><input type="range" name="{name}" '
        f'min="{one["min"]:g}" max="{one["max"]:g}" step="{one["step"]:g}" value="{one["value"]:g}"></label>'
        for name, one in sliders.items()
    )
    output.data = {"text/html": FORM.format(fields=fields, scripts=scripts("player", "../.."))}
    return output


def _sliders(model: str, states: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The states of the sliders in a widget, wherever in it."""
    state = states.get(model, {}).get("state", {})
    if state.get("_model_name", "").endswith("SliderModel"):
        yield state
    for child in state.get("children", []):
        yield from _sliders(child.removeprefix("IPY_MODEL_"), states)


def scripts(name: str, top: str) -> str:
    """The script `name` of book/_static and the two that it builds on; `top` leads to the book's top."""
    names = ("arithmetic", "charts", name)
    return "".join(f'<script src="{top}/_static/{one}.js"></script>' for one in names)
