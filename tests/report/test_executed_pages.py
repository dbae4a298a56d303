"""A book holds pages of one hardware and group, and says which chapters have none; no page needs a kernel."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import Browser, Page

import factories
import synthetic
from specbook import config as plan
from specbook.errors import ConfigError
from specbook.report import executed_pages, headline, render
from specbook.stats import theory

BOOK = Path(__file__).parents[2] / "book"
SLIDERS = {"k": (5, 1, 16, 1), "acceptance": (0.7, 0, 1, 0.05), "draft_cost": (0.1, 0, 0.5, 0.01),
           "fixed_cost": (1.2, 1, 4, 0.1)}  # fmt: skip
UNASKED = (render.published_page, render.engines_page, render.memory_page, render.break_even_page)
"""Pages that do not depend on what a book is of."""


def page(folder, name, hardware="cpu", group="full"):
    notebook = nbformat.v4.new_notebook()
    executed_pages.stamp(notebook, hardware, group)
    nbformat.write(notebook, folder / f"{name}.ipynb")


def test_pages_of_one_plan_are_a_book(tmp_path):
    for name in ("01_a", "02_b"):
        page(tmp_path, name)
    executed_pages.check(tmp_path, ["01_a", "02_b"])


def test_a_stale_page_of_another_hardware_is_refused(tmp_path):
    page(tmp_path, "01_a")
    page(tmp_path, "02_b", "h100", "quick")
    with pytest.raises(ConfigError, match=r"several plans: 01_a of cpu/full, 02_b of h100/quick"):
        executed_pages.check(tmp_path, ["01_a", "02_b"])


def test_a_page_of_an_unknown_plan_is_refused(tmp_path):
    page(tmp_path, "01_a")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "02_b.ipynb")
    with pytest.raises(ConfigError, match="02_b of unknown/unknown"):
        executed_pages.check(tmp_path, ["01_a", "02_b"])


def test_a_missing_page_is_named(tmp_path):
    with pytest.raises(ConfigError, match="not executed yet: 01_a"):
        executed_pages.check(tmp_path, ["01_a"])


def test_a_chapter_without_a_plan_loses_its_stale_page(tmp_path):
    page(tmp_path, "01_a", "trn2")
    page(tmp_path, "02_b")
    pages = {"01_a": "01_a", "02_b": "02_b"}
    executed_pages.make_room(tmp_path, pages, ["01_a"], "trn2")
    assert not (tmp_path / "02_b.ipynb").exists()
    assert "`params/trn2/` has no plan for this chapter" in (tmp_path / "02_b.md").read_text()
    executed_pages.check(tmp_path, ["01_a", "02_b"])
    executed_pages.make_room(tmp_path, pages, ["01_a", "02_b"], "cpu")
    assert not (tmp_path / "02_b.md").exists()


def test_all_pages_of_a_chapter_go_with_its_plan(tmp_path):
    pages = {"01_a": "01_a", "01_b": "01_a"}
    for name in pages:
        page(tmp_path, name)
    executed_pages.make_room(tmp_path, pages, ["01_a"], "cpu")
    assert all((tmp_path / f"{name}.ipynb").exists() for name in pages)
    executed_pages.make_room(tmp_path, pages, [], "trn2")
    assert not list(tmp_path.glob("*.ipynb"))
    assert "With a plan at `params/trn2/01_a.yaml`" in (tmp_path / "01_b.md").read_text()


@pytest.fixture
def without_chapter_two(tmp_path, project, monkeypatch):
    """A hardware whose only plan is the baseline's; `execute` and jupyter-book do nothing."""
    shown = []
    quick = plan.load("01_baseline", "cpu", "quick")
    sources = (plan.file("01_baseline", "cpu"), render.paths.root() / "_toc.yml")
    (tmp_path / "models").symlink_to(render.paths.root() / "models")  # a plan asks for its prompts
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "params" / "cpu").mkdir(parents=True)
    for source, to in zip(sources, ("params/cpu/01_baseline.yaml", "_toc.yml"), strict=True):
        (tmp_path / to).write_text(source.read_text())
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    synthetic.write(quick)
    monkeypatch.setattr(render, "html", lambda: None)

    def execute(name, hardware, group, book, kernel):
        shown.append(group)
        page(render.executed_dir(), name, hardware, book)

    monkeypatch.setattr(render, "execute", execute)
    monkeypatch.setattr(render, "_prepare_in", lambda kernel, *plan: render.prepare(*plan))
    for unasked in UNASKED:
        monkeypatch.setattr(unasked, "render", lambda: "")
    monkeypatch.setattr(render.engines_page, "side_by_side", lambda: "")
    monkeypatch.setattr(render.calculator_page, "render", lambda runs: "")
    monkeypatch.setattr(render, "SHIPPED", ("01_baseline", "cpu", "quick"))
    return tmp_path / "book" / "executed", shown


def test_a_quick_book_takes_the_group_a_chapter_names(without_chapter_two):
    folder, shown = without_chapter_two
    file = plan.file("01_baseline", "cpu")
    for word, group in (("full", "full"), ("quick", "quick")):
        file.write_text(f"quick_book: {word}\n" + file.read_text().replace("quick_book: full\n", ""))
        render.build(hardware="cpu", group="quick")
        assert shown[-1] == group
        executed_pages.check(folder, render.pages())  # all are pages of the quick book
    file.write_text("quick_book: ful\n" + file.read_text().replace("quick_book: quick\n", ""))
    with pytest.raises(ConfigError, match=r"`quick_book` is no group: 'ful' .did you mean 'full'"):
        render.build(hardware="cpu", group="quick")


def test_a_hardware_without_chapter_two_has_a_book(without_chapter_two):
    without_chapter_two, _ = without_chapter_two
    render.build(hardware="cpu", group="quick")
    assert (without_chapter_two / "headline.md").read_text() == headline.NOTHING
    assert "nothing measured" in (without_chapter_two / "02_eagle3.md").read_text()
    executed_pages.check(without_chapter_two, render.pages())


@pytest.mark.parametrize(("ks", "own"), [((5, 5), False), ((3, 5), True)])
def test_the_calculator_starts_from_prices_and_one_k_has_none(tmp_path, project, monkeypatch, ks, own):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    drafted = [factories.point(factories.eagle3(k), restart=i) for i, k in enumerate(ks)]
    runs = [factories.write_run(point, 100.0) for point in (factories.point(), *drafted)]
    given = []
    monkeypatch.setattr(render, "executed_dir", lambda: tmp_path)
    monkeypatch.setattr(render, "_drafting", lambda *plan: [])
    monkeypatch.setattr(render, "_records", lambda plan: runs)
    monkeypatch.setattr(render.records, "replay", lambda plan: "shipped")
    monkeypatch.setattr(render.headline, "render", lambda runs: "")
    for unasked in UNASKED:
        monkeypatch.setattr(unasked, "render", lambda: "")
    monkeypatch.setattr(render.engines_page, "side_by_side", lambda: "")
    monkeypatch.setattr(render.calculator_page, "render", lambda runs: given.append(runs) or "")
    render.prepare(["02_eagle3"], group="quick")
    assert given == [runs if own else "shipped"]


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
    assert executed_pages.as_roles(plain, {"fig-speed-up"}) == role


def test_a_figure_that_was_not_drawn_keeps_its_words():
    notebook = v4.new_notebook(
        cells=[v4.new_markdown_cell("[The figure](#fig-light) shows"), v4.new_code_cell("1")]
    )
    notebook.cells[1].metadata["mystnb"] = {"figure": {"name": "fig-light"}, "image": {"alt": "a line"}}
    assert executed_pages.clean(notebook).cells[0].source == "The figure (not measured yet) shows"


def test_the_answer_stands_below_the_question():
    question, *between = (v4.new_markdown_cell(text) for text in ("# Question", "words", "more"))
    answer = v4.new_code_cell("answer", metadata={"tags": ["answer", "remove-input"]})
    notebook = v4.new_notebook(cells=[question, *between, answer])
    assert executed_pages.clean(notebook).cells == [question, answer, *between]


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
    return {executed_pages.WIDGET_STATES: {"state": {"box": {"state": box}, **children}}}


def view(model: str = "box") -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", {executed_pages.WIDGET: {"model_id": model}})


def test_sliders_become_fields_with_their_range_and_value():
    found = executed_pages.still(view(), states(SLIDERS))
    (mime,) = found.data
    assert mime == "text/html"
    for name, (value, low, high, step) in SLIDERS.items():
        field = f'name="{name}" min="{low:g}" max="{high:g}" step="{step:g}" value="{value:g}"'
        assert field in found.data[mime]


@pytest.mark.parametrize("metadata", [{}, states(["k"])], ids=["no states", "other sliders"])
def test_a_widget_that_the_page_cannot_play_is_left_out(metadata):
    assert executed_pages.still(view(), metadata) is None


def test_what_is_no_widget_stays():
    output = nbformat.v4.new_output("display_data", {"text/html": "<p>"})
    assert executed_pages.still(output, {}) is output


@pytest.fixture(scope="module")
def player(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("player")
    shutil.copytree(BOOK / "_static", folder / "_static")
    (folder / "book" / "executed").mkdir(parents=True)
    place = folder / "book" / "executed" / "page.html"
    body = executed_pages.still(view(), states(SLIDERS)).data["text/html"]
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
def test_each_slider_moves_the_result_by_keyboard(player):
    for name in SLIDERS:
        player.focus(f"[name={name}]")
        for key in ("Home", "ArrowRight", "End"):
            player.keyboard.press(key)
            got = float(player.locator("#player output").get_attribute("data-value"))
            assert got == pytest.approx(expected(player)), name
            assert player.inner_text("#player output") == f"{got:.2f}×"
    assert player.locator("#player circle").count() == SLIDERS["k"][2]
    assert player.evaluate("document.documentElement.scrollWidth") <= 390
