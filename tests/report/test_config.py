"""jupyter-book accepts any key in silence, so each one is held against its own list."""

from pathlib import Path

import jupyter_book
import pytest
import yaml

PROJECT = Path(__file__).parents[2]
DEFAULT = yaml.safe_load((Path(jupyter_book.__file__).parent / "default_config.yml").read_text())
# jupyter-book reads these too, though its default file does not list them.
ALSO = {"bibtex_bibfiles", "description", "html.navbar_number_sections"}


def keys(body: dict, prefix: str = "") -> list[str]:
    found = []
    for name, value in body.items():
        path = f"{prefix}{name}"
        found.append(path)
        if isinstance(value, dict) and path != "sphinx.config":
            found += keys(value, f"{path}.")
    return found


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((PROJECT / "_config.yml").read_text())


def test_every_key_is_one_that_jupyter_book_knows(config):
    assert set(keys(config)) <= set(keys(DEFAULT)) | ALSO


def test_notebooks_are_never_executed_by_the_build(config):
    assert config["execute"]["execute_notebooks"] == "off"


@pytest.mark.parametrize("name", [".venv", "build", "tests", "notebooks", "node_modules", "results"])
def test_folders_without_pages_are_excluded(config, name):
    assert name in config["exclude_patterns"]


def test_every_page_in_the_toc_has_a_source():
    toc = yaml.safe_load((PROJECT / "_toc.yml").read_text())
    chapters = [entry for part in toc["parts"] for entry in part["chapters"]]
    pages = [page for entry in chapters for page in (entry, *entry.get("sections", ()))]
    for name in [toc["root"], *(page["file"] for page in pages)]:
        source = name.replace("book/executed/", "notebooks/")
        assert any((PROJECT / f"{source}{suffix}").is_file() for suffix in (".md", ".ipynb")), name
