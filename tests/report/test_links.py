"""Links that a notebook writes in plain Markdown are roles on its page."""

import pytest
from nbformat import v4

from specbook.report import page_cells, sphinx_roles


@pytest.mark.parametrize(
    ("plain", "role"),
    [
        ("[The figure below](#fig-speed-up) shows", "{numref}`fig-speed-up` shows"),
        ('[TTFT](../book/glossary.md "TTFT"): how long', "{term}`TTFT <TTFT>`: how long"),
        ('[Student, 1908](../book/references.md "student1908")', "{cite:p}`student1908`"),
        ('on [A, 2023; B, 2024](../book/references.md "a2023,b2024").', "on {cite:p}`a2023,b2024`."),
        ("[the method](../book/method.md)", "[the method](../method.md)"),
        ("[the baseline](01_baseline.ipynb) and [0, 1]", "{doc}`the baseline <01_baseline>` and [0, 1]"),
    ],
)
def test_a_link_becomes_its_role(plain, role):
    assert sphinx_roles.as_roles(plain, {"fig-speed-up"}) == role


def test_a_figure_that_was_not_drawn_keeps_its_words():
    notebook = v4.new_notebook(
        cells=[v4.new_markdown_cell("[The figure](#fig-light) shows"), v4.new_code_cell("1")]
    )
    notebook.cells[1].metadata["mystnb"] = {"figure": {"name": "fig-light"}, "image": {"alt": "a line"}}
    assert page_cells.clean(notebook).cells[0].source == "The figure (not measured yet) shows"
