"""Notebook -> executed notebook (papermill) -> HTML (jupyter-book). A failing cell or warning is an error."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml

from specbook import campaign, headline, mistakes, paths, plan, provenance
from specbook.errors import ConfigError, SpecbookError
from specbook.plan import Source

INJECTED = "injected-parameters"
NO_CARD = "The card of the pocket models is written when they are trained: `models/card.md` is not there yet."
STRICT = ("--all", "-W", "-n", "--keep-going")
WARNING = re.compile(r"WARNING|ERROR|CRITICAL|^\S*(Error|Exception): ", re.MULTILINE)
QUIET = ["--IPKernelApp.log_level=CRITICAL"]
"""Kernels warn at every start that loopback is not encrypted; what fails in a cell is raised all the same."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def chapters() -> list[str]:
    """The chapters in `_toc.yml`: its pages under `book/executed/`."""
    toc = yaml.safe_load((paths.root() / "_toc.yml").read_text())
    files = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [Path(name).name for name in files if Path(name).parent == Path("book/executed")]


def executed_dir() -> Path:
    """Where jupyter-book finds executed notebooks; git-ignored."""
    return paths.root() / "book" / "executed"


def execute(
    chapter: str,
    hardware: str = "cpu",
    group: str = "full",
    source: Source = "records",
    out_folder: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Path:
    """Run a chapter's notebook and write it, outputs included, to `out_folder` (default: `book/executed/`).

    Raises:
        ConfigError: for an unknown chapter or parameter, naming the near match.
        SpecbookError: if a cell fails; its last line says why.
    """
    notebook = _notebook(chapter)
    given = {"hardware": hardware, "group": group, "source": source, **(parameters or {})}
    target = (out_folder or executed_dir()) / f"{chapter}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, f"{chapter}.ipynb")
        _run(notebook, draft, _changed(notebook, given))
        clean = _clean(nbformat.read(draft, as_version=4))
    nbformat.validate(clean)
    nbformat.write(clean, target)
    return target


def _notebook(chapter: str) -> Path:
    path = paths.notebooks_dir() / f"{chapter}.ipynb"
    if not path.is_file():
        known = [found.stem for found in paths.notebooks_dir().glob("*.ipynb")]
        raise ConfigError(f"no chapter {chapter!r}{mistakes.near(chapter, known)}")
    return path


def _changed(notebook: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that differ from the notebook's own: only these are injected, so a page shows the change."""
    import papermill

    known = papermill.inspect_notebook(str(notebook))
    for name in given:
        if name not in known:
            raise ConfigError(f"unknown parameter {name!r}{mistakes.near(name, known)}")
    return {name: value for name, value in given.items() if value != ast.literal_eval(known[name]["default"])}


def _run(notebook: Path, out: Path, parameters: dict[str, Any]) -> None:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    try:
        papermill.execute_notebook(
            str(notebook), str(out), parameters, cwd=str(paths.root()), kernel_name="python3",
            progress_bar=False, start_timeout=180, extra_arguments=QUIET,
        )  # fmt: skip
    except PapermillExecutionError as error:
        raise SpecbookError(
            f"{notebook.stem}, cell {error.cell_index}: {error.ename}: {error.evalue}"
        ) from error


def _clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what differs from run to run or needs a kernel: timings, paths, progress bars, widgets."""
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if INJECTED in cell.metadata.get("tags", []):
            cell.id = INJECTED
            cell.metadata.tags.append("hide-input")
        if cell.cell_type == "code":
            cell.outputs = [_portable(output) for output in cell.outputs if _is_content(output)]
    return notebook


def _is_content(output: nbformat.NotebookNode) -> bool:
    if output.output_type == "stream":
        return output.name != "stderr"
    return "application/vnd.jupyter.widget-view+json" not in output.get("data", {})


def _portable(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if output.output_type == "stream":
        output.text = provenance.portable(output.text)
    for mime, body in output.get("data", {}).items():
        if isinstance(body, str) and mime.startswith("text/"):
            output.data[mime] = provenance.portable(body)
    return output


def prepare(hardware: str = "cpu", group: str = "full", chapter: str = "02_eagle3") -> None:
    """Write what prose pages include: the front page's figure and table, and the pocket models' card."""
    folder = executed_dir()
    headline.write(campaign.replay(plan.load(chapter, hardware, group)), folder)
    card = paths.models_dir() / "card.md"
    (folder / "card.md").write_text(card.read_text() if card.is_file() else NO_CARD + "\n")


def build(
    names: Iterable[str] | None = None,
    hardware: str = "cpu",
    group: str = "full",
    source: Source = "records",
    out_folder: Path | None = None,
) -> Path:
    """Execute the chapters (default: those in `_toc.yml`), then build the book; returns its `index.html`."""
    for name in names or chapters():
        execute(name, hardware, group, source)
    prepare(hardware, group)
    return html(out_folder)


def html(out_folder: Path | None = None) -> Path:
    """Build `book/executed/` and the prose into `<out_folder>/_build/html`; returns its `index.html`.

    Every page is built anew: Sphinx warns only when it reads a page, so a second build would pass.

    Raises:
        ConfigError: if a chapter was not executed yet.
        SpecbookError: if jupyter-book fails, or warns of anything; the message holds its lines.
    """
    missing = [name for name in chapters() if not (executed_dir() / f"{name}.ipynb").is_file()]
    if missing:
        raise ConfigError(f"not executed yet: {', '.join(missing)}. `specbook book` executes them first")
    out = out_folder or paths.root()
    shutil.rmtree(out / "_build" / "html", ignore_errors=True)
    done = _jupyter_book("build", str(paths.root()), "--path-output", str(out), *STRICT)
    index = out / "_build" / "html" / "index.html"
    if done.returncode != 0 or not index.is_file():
        raise SpecbookError(f"the book did not build:\n{_complaints(done.stdout + done.stderr)}")
    return index


def _jupyter_book(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", *arguments]
    return subprocess.run(
        command,
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )


def _complaints(text: str) -> str:
    lines = [line for line in COLOUR.sub("", text).splitlines() if WARNING.search(line)]
    return provenance.portable("\n".join(lines or text.splitlines()[-10:]))
