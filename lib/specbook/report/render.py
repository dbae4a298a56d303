"""Notebook -> executed (papermill) -> HTML or PDF (jupyter-book). A failing cell or warning is an error."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import nbformat
import yaml

from specbook import config, paths, records, suggestions
from specbook.config import Plan, plan_files
from specbook.errors import ConfigError, SpecbookError
from specbook.records.run_set import RunSet
from specbook.report import (
    break_even_page,
    calculator_page,
    engines_page,
    executed_pages,
    gate_page,
    headline,
    memory_page,
    published_page,
)

SHIPPED = ("02_eagle3", "cpu", "full")
"""The plan whose records come with the project."""
STRICT = ("--all", "-W", "-n", "--keep-going")
NEEDLESS = ("**/*.map", "**/*.ttf", "locales")
"""What the theme ships and no page loads: maps for its own debugging, fonts of old browsers, translations."""
WARNING = re.compile(r"WARNING|ERROR|CRITICAL|^\S*(Error|Exception): ", re.MULTILINE)
KERNEL = {
    "kernel_name": "python3",
    "extra_arguments": ["--IPKernelApp.log_level=CRITICAL", "--InlineBackend.figure_formats=set()"],
}
"""Kernels warn at every start that loopback is not encrypted; what fails in a cell is raised all the same. A
page shows a figure's SVG, so no PNG is drawn."""
KERNEL_START_S = 180
JUPYTER_BOOK = "import gc; gc.set_threshold(100_000, 50, 100); from jupyter_book.cli.main import main; main()"
"""Its trees stay until the end: to look for garbage among them takes a fifth of a build."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--no-pdf-header-footer", "--virtual-time-budget=10000",
)  # fmt: skip
"""Without a window; a page's scripts get ten seconds of its own clock before it is printed."""
PRINT_LIMIT_S = 300


def pages() -> dict[str, str]:
    """The pages under `book/executed/` in `_toc.yml`, each with its chapter, which names its plan.

    A page among the `sections` of another belongs to that one's chapter.
    """
    toc = yaml.safe_load((paths.root() / "_toc.yml").read_text())
    return {
        Path(page["file"]).name: Path(entry["file"]).name
        for part in toc["parts"]
        for entry in part["chapters"]
        for page in (entry, *entry.get("sections", ()))
        if Path(page["file"]).parent == Path("book/executed")
    }


def chapters() -> list[str]:
    """The chapters in `_toc.yml` that have a plan."""
    return list(dict.fromkeys(pages().values()))


def chapters_of(hardware: str) -> list[str]:
    """The chapters that a hardware has plans for and `_toc.yml` a page: others await their records."""
    return [name for name in config.chapters(["all"], hardware) if name in chapters()]


def executed_dir() -> Path:
    """Where jupyter-book finds executed notebooks; git-ignored."""
    return paths.root() / "book" / "executed"


def execute(
    page: str,
    hardware: str = "cpu",
    group: str = "full",
    out_folder: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    book: str | None = None,
    kernel: Callable[[], Any] | None = None,
) -> Path:
    """Run a page's notebook and write it, outputs included, to `out_folder` (default: `book/executed/`).

    `book` is the group of the book that the page is for, where it shows another of this chapter. `kernel`
    gives the manager of one that holds no names; by default the chapter gets its own.

    Raises:
        ConfigError: for an unknown page or parameter, naming the near match.
        SpecbookError: if a cell fails; its last line says why.
    """
    notebook = _notebook(page)
    given = {"hardware": hardware, "group": group, "source": "records", **(parameters or {})}
    target = (out_folder or executed_dir()) / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    clean = executed_pages.clean(_run(notebook, _changed(notebook, given), kernel))
    executed_pages.stamp(clean, hardware, book or group)
    executed_pages.name_sources(clean, page, plan_files.file(pages().get(page, page), hardware))
    nbformat.validate(clean)
    nbformat.write(clean, target)
    return target


def _notebook(page: str) -> Path:
    path = paths.notebooks_dir() / f"{page}.ipynb"
    if not path.is_file():
        known = [path.stem for path in paths.notebooks_dir().glob("*.ipynb")]
        raise ConfigError(f"no notebook {page!r}{suggestions.near(page, known)}")
    return path


def _changed(notebook: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that differ from the notebook's own: only these are injected, so a page shows the change."""
    import papermill

    known = papermill.inspect_notebook(str(notebook))
    for name in given:
        if name not in known:
            raise ConfigError(f"unknown parameter {name!r}{suggestions.near(name, known)}")
    return {name: value for name, value in given.items() if value != ast.literal_eval(known[name]["default"])}


def _run(
    notebook: Path, parameters: dict[str, Any], kernel: Callable[[], Any] | None
) -> nbformat.NotebookNode:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    try:
        return papermill.execute_notebook(
            str(notebook), None, parameters, cwd=str(paths.root()), progress_bar=False,
            start_timeout=KERNEL_START_S, km=kernel() if kernel else None,
            coalesce_streams=True,  # two lines are one output, however soon the second comes
            **KERNEL,
        )  # fmt: skip
    except PapermillExecutionError as error:
        raise SpecbookError(
            f"{notebook.stem}, cell {error.cell_index}: {error.ename}: {error.evalue}"
        ) from error


@contextmanager
def _one_kernel() -> Iterator[Callable[[], Any]]:
    """A kernel for one chapter after another: libraries and records are loaded once for a book.

    Yields:
        What empties it of the names of the chapter before, and returns its manager.
    """
    from nbclient import NotebookClient

    where = {"metadata": {"path": str(paths.root())}}
    owner = NotebookClient(
        nbformat.v4.new_notebook(), resources=where, startup_timeout=KERNEL_START_S, **KERNEL
    )
    with ExitStack() as stack:

        def emptied() -> Any:
            if owner.km is None:
                stack.enter_context(owner.setup_kernel())
            else:
                owner.start_new_kernel_client()
                owner.wait_for_reply(owner.kc.execute("get_ipython().reset()", silent=True))
            owner.kc.stop_channels()  # a kernel answers the client that came last
            return owner.km

        yield emptied


def prepare(names: Iterable[str], hardware: str = "cpu", group: str = "full") -> None:
    """Write what prose pages include: numbers from records, from sources, and computed."""
    plans = _drafting(names, hardware, group)
    most_drafts = max(plans, key=lambda plan: len(plan.drafts), default=None)
    runs = _records(plans[0] if plans else None)
    ks = {run.point.speculation.num_speculative_tokens for run in runs if run.point.speculation}
    if len(ks) < 2:  # one K says nothing of prices; the calculator names the machine that its records are of
        runs = records.replay(config.load(*SHIPPED))
    included = {
        "published.html": published_page.render(),
        "memory.md": memory_page.render(),
        "break_even.md": break_even_page.render(),
        "compare.md": gate_page.render(),
        "engines.md": engines_page.render(),
        "two_engines.md": engines_page.side_by_side(),
        "headline.md": headline.render(_records(most_drafts)),
        "calculator.html": calculator_page.render(runs),
        "card.md": (paths.models_dir() / "card.md").read_text(),
    }
    for name, text in included.items():
        executed_pages.put(executed_dir(), name, text)


def _prepare_in(kernel: Callable[[], Any], names: Iterable[str], hardware: str, group: str) -> None:
    """`prepare`, in the kernel that drew the chapters: it has their records and tables at hand."""
    asked = f"from specbook.report import render\nrender.prepare({names!r}, {hardware!r}, {group!r})"
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "prose.ipynb")
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(asked)]), draft)
        _run(draft, {}, kernel)


def _drafting(names: Iterable[str], hardware: str, group: str) -> list[Plan]:
    """The chapters' sweeps that draft, but for chapters of which this book shows another group's, maybe of
    another machine.
    """
    own = (name for name in names if config.in_book(name, hardware, group) == group)
    return [part for name in own for part in config.load(name, hardware, group).parts() if part.drafts]


def _records(plan: Plan | None) -> RunSet:
    return records.replay(plan) if plan else RunSet()


def build(hardware: str = "cpu", group: str = "full", report: Callable[[str], None] = lambda _: None) -> Path:
    """Execute the chapters of a hardware and build the book; returns its `index.html`.

    `report` is called with what comes next: each takes seconds to minutes.
    """
    names = chapters_of(hardware)
    executed_pages.make_room(executed_dir(), pages(), names, hardware)
    made = {page: chapter for page, chapter in pages().items() if chapter in names}
    with _one_kernel() as emptied:
        for number, (page, chapter) in enumerate(made.items(), start=1):
            report(f"drawing {page} ({number} of {len(made)})")
            shown = config.in_book(chapter, hardware, group)
            execute(page, hardware, shown, book=group, kernel=emptied)
        report("drawing the pages of prose")
        _prepare_in(emptied, names, hardware, group)
    report("writing the HTML")
    return html()


def html() -> Path:
    """Build `book/executed/` and the prose into `_build/html`; returns its `index.html`.

    Every page is built anew: Sphinx warns only when it reads a page, so a second build would pass.

    Raises:
        ConfigError: if a page was not executed yet, or pages of several plans lie there.
        SpecbookError: if jupyter-book fails, or warns of anything; the message holds its lines.
    """
    built = jupyter_book("html")
    for needless in (one for pattern in NEEDLESS for one in (built / "_static").glob(pattern)):
        shutil.rmtree(needless) if needless.is_dir() else needless.unlink()
    for offered in (built / "_sources").rglob("*.ipynb"):  # for download: the notebook to run, not the page's
        shutil.copy(paths.notebooks_dir() / offered.name, offered)
    return built / "index.html"


def jupyter_book(builder: str) -> Path:
    """Run one of jupyter-book's builders over all pages; returns the folder with its `index.html`.

    Raises: as `html`.
    """
    executed_pages.check(executed_dir(), pages())
    root = paths.root()
    built = root / "_build" / builder
    shutil.rmtree(built, ignore_errors=True)
    asked = ["build", str(root), "--path-output", str(root), "--builder", builder, *STRICT]
    done = subprocess.run(
        [sys.executable, "-c", JUPYTER_BOOK, *asked], cwd=root, env=os.environ | {"NO_COLOR": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0 or not (built / "index.html").is_file():
        raise SpecbookError(f"the book did not build:\n{_complaints(done.stdout + done.stderr)}")
    return built


def _complaints(text: str) -> str:
    lines = [line for line in COLOUR.sub("", text).splitlines() if WARNING.search(line)]
    return paths.portable("\n".join(lines or text.splitlines()[-10:]))


def pdf(browser: str | None) -> Path:
    """Print the book, all pages on one by Sphinx's `singlehtml`, with this Chromium, a path (None: there is
    none); returns `_build/specbook.pdf`.

    Raises:
        ConfigError: if there is no Chromium.
        SpecbookError: if jupyter-book or Chromium fails.
    """
    if browser is None:
        raise ConfigError("no Chromium to print a PDF with. To fix: sudo apt-get install chromium")
    built = jupyter_book("singlehtml")
    page, printed = built / "print.html", built.parent / "specbook.pdf"
    shutil.copy(built / "book" / "index.html", page)  # its links to styles are those of a page at the top
    command = [browser, *CHROMIUM, f"--print-to-pdf={printed}", page.as_uri()]
    printed.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PRINT_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise SpecbookError(f"{browser} took more than {PRINT_LIMIT_S} s to print {page}") from error
    if done.returncode != 0 or not printed.is_file():
        raise SpecbookError(f"{browser} printed nothing: {done.stderr.strip()[-200:]}")
    return printed
