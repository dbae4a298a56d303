"""The executed pages of one book: all of one hardware and group, and a page for each chapter without one."""

from collections.abc import Collection
from pathlib import Path

import nbformat

from specbook.errors import ConfigError

STAMP = "specbook"
"""Key of a notebook's metadata that says which plan its outputs are of."""


def stamp(notebook: nbformat.NotebookNode, hardware: str, group: str) -> None:
    """Note which plan an executed notebook shows."""
    notebook.metadata[STAMP] = {"hardware": hardware, "group": group}


def put(folder: Path, name: str, text: str) -> Path:
    """Write what a page of prose includes into `folder`; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / name
    page.write_text(text, encoding="utf-8")
    return page


def make_room(folder: Path, known: Collection[str], made: Collection[str], hardware: str) -> None:
    """Before a book of the chapters `made`: take away what other books left, and say what this one lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in known:
        (folder / f"{name}.md").unlink(missing_ok=True)
        if name not in made:
            (folder / f"{name}.ipynb").unlink(missing_ok=True)
            (folder / f"{name}.md").write_text(_without(name, hardware), encoding="utf-8")


def _without(chapter: str, hardware: str) -> str:
    return (
        f"# {chapter[:2]}: nothing measured\n\n`params/{hardware}/` has no plan for this chapter, "
        f"so there is nothing of it here. With a plan at `params/{hardware}/{chapter}.yaml`, "
        f"`specbook run {chapter} --hardware {hardware}` measures it.\n"
    )


def check(folder: Path, known: Collection[str]) -> None:
    """Every chapter has its page, and all pages are of one hardware and group.

    Raises:
        ConfigError: naming what is missing, or whose pages are mixed.
    """
    missing = [
        name for name in known if not any((folder / f"{name}{e}").is_file() for e in (".ipynb", ".md"))
    ]
    if missing:
        raise ConfigError(f"not executed yet: {', '.join(missing)}. `specbook book` executes them first")
    shown = {name: _shown(folder / f"{name}.ipynb") for name in known if (folder / f"{name}.ipynb").is_file()}
    if len(set(shown.values())) > 1:
        each = ", ".join(f"{name} of {plan}" for name, plan in shown.items())
        raise ConfigError(f"executed pages of several plans: {each}. `specbook book` makes them anew")


def _shown(page: Path) -> str:
    found = nbformat.read(page, as_version=4).metadata.get(STAMP, {})
    return f"{found.get('hardware', 'unknown')}/{found.get('group', 'unknown')}"
