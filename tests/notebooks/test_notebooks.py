"""Chapters as they lie in git: stripped, parametrised, short cells. tests/report executes and builds them."""

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

import chapters
from specbook import config
from specbook.report import executed_pages

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
MAX_LINES = 25
VISIBLE = 0.5
"""Least share of a chapter's lines of code that a reader sees without opening a cell."""
SHORT = 6
"""Lines of a page's first cell, its title and question: the answer follows on the same screen."""
LONG_ENOUGH = 8
"""Words of prose before a cell that draws: it has to say what to look for."""


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


@pytest.fixture
def cells(path) -> list[nbformat.NotebookNode]:
    return read(path)


@cache
def read(path: Path) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    return notebook.cells


def code(cells) -> list[nbformat.NotebookNode]:
    return [cell for cell in cells if cell.cell_type == "code"]


def parameters(cells) -> dict[str, object]:
    (cell,) = [cell for cell in code(cells) if "parameters" in cell.metadata.get("tags", [])]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(cell.source).body}


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_outputs_are_stripped(cells):
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(cells))


def test_cell_ids_are_unique_and_not_random(cells):
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    assert all("cell-" in name or "-" in name for name in ids)


def test_the_first_code_cell_holds_the_parameters(path, cells):
    assert "parameters" in code(cells)[0].metadata.tags
    names = parameters(cells)
    assert {"hardware", "group", "source"} <= set(names)
    kind = type(config.load(chapters.PLANS[path.stem], "cpu", "full"))
    assert set(names) - {"source"} <= set(kind.model_fields) - {"chapter"}


def test_a_parameter_that_the_plan_decides_is_none(cells):
    names = parameters(cells)
    assert (names.pop("hardware"), names.pop("group"), names.pop("source")) == ("cpu", "full", "records")
    assert set(names.values()) <= {None}


def test_a_page_asks_for_the_plan_of_its_chapter(path, cells):
    asked = [
        f'from_notebook("{chapters.PLANS[path.stem]}", globals())' in cell.source for cell in code(cells)
    ]
    assert asked.index(True) in (1, 2)  # after the parameters, before anything is shown
    assert asked.count(True) == 1


def test_cells_are_short_and_define_no_classes(cells):
    for cell in code(cells):
        assert len(cell.source.splitlines()) <= MAX_LINES, cell.source
        kinds = {type(node) for node in ast.walk(ast.parse(cell.source))}
        assert not kinds & {ast.AsyncFunctionDef, ast.ClassDef}, cell.source


@pytest.mark.parametrize("name", chapters.NAMES)
def test_at_least_half_of_the_code_is_visible(name):
    lines = chapters.lines_of_code(name)
    assert lines[True] / sum(lines.values()) >= VISIBLE, lines


def test_prose_is_plain_markdown_which_jupyterlab_shows(cells):
    for cell in cells:
        assert cell.cell_type == "code" or not re.search(r"\{[a-z:]+\}`", cell.source), cell.source


def test_captions_hold_no_measured_numbers(cells):
    for cell in code(cells):
        if "mystnb" in cell.metadata:
            figure = cell.metadata.mystnb.figure
            assert figure.name.startswith("fig-")
            assert cell.metadata.mystnb.image.alt
            words = (
                figure.caption.replace("95 %", "").replace("p50", "").replace("p99", "").replace("K + 1", "")
            )
            assert not any(letter.isdigit() for letter in words), figure.caption


def test_every_figure_is_referred_to_and_introduced(cells):
    prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for before, cell in pairwise(cells):
        if "mystnb" in cell.metadata:
            assert f" figure below](#{cell.metadata.mystnb.figure.name})" in prose
            assert before.cell_type == "markdown"
            assert len(before.source.split()) >= LONG_ENOUGH


def test_a_page_opens_with_its_question_and_ends_with_advice(cells):
    assert "**Question.**" in cells[0].source
    (answer,) = [cell for cell in code(cells) if executed_pages.ANSWER in cell.metadata.get("tags", [])]
    assert ".answer(" in answer.source or "answers_text." in answer.source
    assert "remove-input" in answer.metadata.tags
    assert len(cells[0].source.splitlines()) <= SHORT
    assert any(cell.source.startswith("## What to do") for cell in cells if cell.cell_type == "markdown")
