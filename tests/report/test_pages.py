"""A book holds pages of one hardware and group, and says which chapters have none."""

import nbformat
import pytest

import factories
import synthetic
from specbook import config as plan
from specbook.errors import ConfigError
from specbook.report import executed_pages, headline, render


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


def test_a_page_that_does_not_say_whose_it_is_is_no_page_of_this_book(tmp_path):
    page(tmp_path, "01_a")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "02_b.ipynb")
    with pytest.raises(ConfigError, match="02_b of unknown/unknown"):
        executed_pages.check(tmp_path, ["01_a", "02_b"])


def test_a_missing_page_is_named(tmp_path):
    with pytest.raises(ConfigError, match="not executed yet: 01_a"):
        executed_pages.check(tmp_path, ["01_a"])


def test_a_chapter_without_a_plan_says_so_and_its_stale_page_goes(tmp_path):
    page(tmp_path, "01_a", "trn2")
    page(tmp_path, "02_b")
    executed_pages.make_room(tmp_path, ["01_a", "02_b"], ["01_a"], "trn2")
    assert not (tmp_path / "02_b.ipynb").exists()
    assert "`params/trn2/` has no plan for this chapter" in (tmp_path / "02_b.md").read_text()
    executed_pages.check(tmp_path, ["01_a", "02_b"])
    executed_pages.make_room(tmp_path, ["01_a", "02_b"], ["01_a", "02_b"], "cpu")
    assert not (tmp_path / "02_b.md").exists()


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
    monkeypatch.setattr(render, "html", lambda out: out)

    def execute(name, hardware, group, _, book):
        shown.append(group)
        page(render.executed_dir(), name, hardware, book)

    monkeypatch.setattr(render, "execute", execute)
    for unasked in (render.published_page, render.memory_page, render.break_even_page):
        monkeypatch.setattr(unasked, "write", lambda folder: None)
    monkeypatch.setattr(render.calculator_page, "write", lambda runs, folder: None)
    monkeypatch.setattr(render, "SHIPPED", ("01_baseline", "cpu", "quick"))
    return tmp_path / "book" / "executed", shown


def test_a_chapter_whose_file_says_so_is_replayed_in_a_quick_book(without_chapter_two):
    folder, shown = without_chapter_two
    file = plan.file("01_baseline", "cpu")
    for word, group in (("full", "full"), ("quick", "quick")):
        file.write_text(f"quick_book: {word}\n" + file.read_text().replace("quick_book: full\n", ""))
        render.build(hardware="cpu", group="quick")
        assert shown[-1] == group
        executed_pages.check(folder, render.chapters())  # all are pages of the quick book
    file.write_text("quick_book: ful\n" + file.read_text().replace("quick_book: quick\n", ""))
    with pytest.raises(ConfigError, match=r"`quick_book` is no group: 'ful' .did you mean 'full'"):
        render.build(hardware="cpu", group="quick")


def test_a_hardware_without_chapter_two_has_a_book(without_chapter_two):
    without_chapter_two, _ = without_chapter_two
    render.build(hardware="cpu", group="quick")
    assert (without_chapter_two / "headline.md").read_text() == headline.NOTHING
    assert "nothing measured" in (without_chapter_two / "02_eagle3.md").read_text()
    executed_pages.check(without_chapter_two, render.chapters())


@pytest.mark.parametrize(("ks", "own"), [((5, 5), False), ((3, 5), True)])
def test_the_calculator_starts_from_prices_and_one_k_has_none(tmp_path, project, monkeypatch, ks, own):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    drafted = [factories.point(factories.eagle3(k), restart=i) for i, k in enumerate(ks)]
    runs = [factories.write_run(point, 100.0) for point in (factories.point(), *drafted)]
    given = []
    monkeypatch.setattr(render, "executed_dir", lambda: tmp_path)
    monkeypatch.setattr(render, "_speculative", lambda *plan: runs)
    monkeypatch.setattr(render.campaign, "replay", lambda plan: "shipped")
    monkeypatch.setattr(render.headline, "write", lambda runs, folder: None)
    for unasked in (render.published_page, render.memory_page, render.break_even_page):
        monkeypatch.setattr(unasked, "write", lambda folder: None)
    monkeypatch.setattr(render.calculator_page, "write", lambda runs, folder: given.append(runs))
    render.prepare(["02_eagle3"], group="quick")
    assert given == [runs if own else "shipped"]
