"""The book is built once per session: from shipped records, or made-up ones where a chapter has none."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from specbook import config, paths, records
from specbook.errors import ConfigError
from specbook.report import render

sys.path.insert(0, str(Path(__file__).parents[1]))

import synthetic
import tools

SOURCES = ("_config.yml", "_toc.yml", "book", "notebooks", "params", "results/published.csv")
PROJECT = Path(__file__).parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def shipped() -> bool:
    """Whether `results/` can replay every chapter's full plan."""
    try:
        plans = [config.load(name, "cpu", "full") for name in render.chapters()]
        return all(records.replay(sweep) for one in plans for sweep in config.sweeps(one))
    except ConfigError:
        return False


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the book's sources, so that a build leaves nothing in the project."""
    folder = tmp_path_factory.mktemp("project")
    leave = shutil.ignore_patterns("executed", ".ipynb_checkpoints")
    for name in SOURCES:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=leave)
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(source, folder / name)
    if (PROJECT / "models").is_dir():
        (folder / "models").symlink_to(PROJECT / "models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_ROOT", str(folder))
        patch.setenv(
            "PYTHONPATH",
            os.pathsep.join([str(PROJECT / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        )
        yield folder


@pytest.fixture(scope="session")
def group(root: Path) -> Iterator[str]:
    """The group to build: `full` from shipped records, `quick` from made-up ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_RESULTS", str(PROJECT / "results"))
        if shipped():
            yield "full"
            return
        patch.setenv("SPECBOOK_RESULTS", str(root / "results"))
        for name in render.chapters():
            synthetic.write(config.load(name, "cpu", "quick"))
        eagle3 = config.load("02_eagle3", "cpu", "quick")
        synthetic.write_lossless(eagle3, "float32", 0, 0)
        synthetic.write_lossless(eagle3, "bfloat16", 2, 8)
        yield "quick"


@pytest.fixture(scope="session")
def html(root: Path, group: str) -> Path:
    """The folder of the built pages."""
    assert paths.root() == root
    return render.build(group=group).parent


@pytest.fixture(scope="session")
def prose(root: Path, html: Path) -> Path:
    """The folder of what the book's pages of prose include."""
    return root / "book" / "executed"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path  # where `playwright install` puts it
        path = own if Path(own).exists() else tools.need("chromium")
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> BrowserContext:
    """For tests that leave nothing in it: one process and one cache for all of a module's pages."""
    return browser.new_context(viewport={"width": 1280, "height": 900})
