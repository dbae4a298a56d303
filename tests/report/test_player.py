"""Sliders of a notebook on a page without a kernel: the notebook's own, by the package's arithmetic."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from specbook.report import sliders
from specbook.stats import theory

BOOK = Path(__file__).parents[2] / "book"
SLIDERS = {"k": (5, 1, 16, 1), "acceptance": (0.7, 0, 1, 0.05), "draft_cost": (0.1, 0, 0.5, 0.01),
           "verify_cost": (1.2, 1, 4, 0.1)}  # fmt: skip


def states(names) -> dict:
    """Widget states as papermill saves them: a box, and in it sliders and an output."""
    children = {
        name: {"state": {
            **dict(zip(("value", "min", "max", "step"), SLIDERS[name], strict=True)), "description": name,
            "_model_name": "IntSliderModel" if name == "k" else "FloatSliderModel"}}
        for name in names
    }  # fmt: skip
    children["out"] = {"state": {"_model_name": "OutputModel"}}
    box = {"_model_name": "VBoxModel", "children": [f"IPY_MODEL_{name}" for name in children]}
    return {sliders.STATE: {"state": {"box": {"state": box}, **children}}}


def view(model: str = "box") -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", {sliders.VIEW: {"model_id": model}})


def test_sliders_become_fields_with_their_range_and_value():
    found = sliders.still(view(), states(SLIDERS))
    (mime,) = found.data
    assert mime == "text/html"
    for name, (value, low, high, step) in SLIDERS.items():
        field = f'name="{name}" min="{low:g}" max="{high:g}" step="{step:g}" value="{value:g}"'
        assert field in found.data[mime]


@pytest.mark.parametrize("metadata", [{}, states(["k"])], ids=["no states", "other sliders"])
def test_a_widget_that_the_page_cannot_play_is_left_out(metadata):
    assert sliders.still(view(), metadata) is None


def test_what_is_no_widget_stays():
    output = nbformat.v4.new_output("display_data", {"text/html": "<p>"})
    assert sliders.still(output, {}) is output


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("player")
    shutil.copytree(BOOK / "_static", folder / "_static")
    (folder / "book" / "executed").mkdir(parents=True)
    place = folder / "book" / "executed" / "page.html"
    body = sliders.still(view(), states(SLIDERS)).data["text/html"]
    place.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Player</title>'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="../../_static/tools.css"></head>'
        f'<body class="bd-article">{body}</body></html>'
    )
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.goto(place.as_uri())
    yield opened
    opened.close()


def expected(page: Page) -> float:
    k, alpha, draft, verify = (float(page.input_value(f"[name={name}]")) for name in SLIDERS)
    return theory.speedup(theory.expected_acceptance_length(alpha, int(k)), int(k), draft, verify)


@pytest.mark.browser
def test_each_slider_moves_the_result_by_keyboard_and_it_is_the_packages(page):
    for name in SLIDERS:
        page.focus(f"[name={name}]")
        for key in ("Home", "ArrowRight", "End"):
            page.keyboard.press(key)
            got = float(page.locator("#player output").get_attribute("data-value"))
            assert got == pytest.approx(expected(page)), name
            assert page.inner_text("#player output") == f"{got:.2f}×"
    assert page.locator("#player circle").count() == SLIDERS["k"][2]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
