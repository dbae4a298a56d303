"""The built pages: strict, complete, without dead links, and each figure says where its numbers come from."""

import re
import shutil
from functools import cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
import yaml

import chapters
import drifting
import mixtures
import synthetic
from specbook import config
from specbook.errors import ConfigError, SpecbookError
from specbook.report import render

QUICKEST = "06_trainium"
"""To execute: its records are few."""
INJECTED = "injected-parameters"
KIND = "(?:measured|simulated|computed|published|replayed|synthetic-acceptance)"


class Links(HTMLParser):
    """What a page refers to, and the ids it offers."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids.add(named.get("id") or "")
        if tag == "a" and named.get("href"):
            self.targets.append(named["href"])
        for name in {"img": ["src"], "script": ["src"], "link": ["href"]}.get(tag, []):
            if named.get(name) and named.get("rel") not in ("canonical", "next", "prev", "search", "index"):
                self.loaded.append(named[name])


@cache
def read(page: Path) -> Links:
    """A page as it was built once for all tests: hundreds of links lead to each."""
    return Links(page)


def pages(html: Path) -> list[Path]:
    return sorted((html / "book").rglob("*.html"))


def executed(root: Path) -> dict[str, nbformat.NotebookNode]:
    return {name: nbformat.read(root / "book" / "executed" / f"{name}.ipynb", 4) for name in render.pages()}


def test_the_start_page_leads_to_the_index(html):
    assert "book/index.html" in (html / "index.html").read_text()


def test_the_book_is_light(html):
    assert sum(file.stat().st_size for file in html.rglob("*")) < 15e6


def test_each_page_offers_its_notebook_and_plan(root, html):
    for name in executed(root):
        links = read(html / "book" / "executed" / f"{name}.html").targets
        offered = {Path(link).name for link in links if "/_downloads/" in link}
        assert offered == {f"{chapters.PLANS[name]}.yaml"}
        button = html / "_sources" / "book" / "executed" / f"{name}.ipynb"
        assert button.read_text() == (root / "notebooks" / button.name).read_text()


def test_internal_links_and_images_resolve(html):
    for page in pages(html):
        for link in (found := read(page)).targets + found.loaded:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page.name}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in read(target).ids, f"{page.name}: {link}"


def test_a_shared_link_shows_title_and_figure(html):
    titles = {}
    for page in (html / "book" / "index.html", html / "book" / "executed" / "02_eagle3.html"):
        shown = dict(re.findall(r'<meta property="og:(\w+)" content="([^"]*)"', page.read_text()))
        assert (page.parent / shown["image"]).is_file()
        titles[page.stem] = shown["title"]
    assert "EAGLE-3" in titles["02_eagle3"]
    assert titles["index"] != titles["02_eagle3"]


def test_nothing_is_loaded_from_elsewhere(html):
    for page in pages(html):
        elsewhere = [link for link in read(page).loaded if urlsplit(link).netloc]
        assert not elsewhere, page.name


def test_every_code_cell_that_draws_has_its_figure_on_the_page(root, html):
    for name, notebook in executed(root).items():
        text = (html / "book" / "executed" / f"{name}.html").read_text()
        figures = [cell.metadata.mystnb.figure.name for cell in notebook.cells if "mystnb" in cell.metadata]
        assert figures
        for figure in figures:
            assert re.search(rf'<figure[^>]*id="{figure}"', text), figure


def test_pages_have_outputs_and_no_traces_of_the_run(root, html):
    for name, notebook in executed(root).items():
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        assert len(outputs) > 5, name
        body = nbformat.writes(notebook)
        for trace in (str(root), str(Path.home()), "widget-view", "it/s]", '"papermill"', "stderr", "<Axes"):
            assert trace not in body, f"{name} holds {trace!r}"


def test_every_figure_is_signed_with_a_kind(root, html):
    """The line below a figure is part of the drawing, in both layouts."""
    for name, notebook in executed(root).items():
        for cell in notebook.cells:
            if "mystnb" in cell.metadata:
                assert re.search(r"style\.(sign|note)\(|theory_map\(", cell.source), f"{name}: {cell.source}"
                (drawn,) = [o.data["text/html"] for o in cell.outputs if "text/html" in o.get("data", {})]
                assert drawn.count("<svg") == 2
                assert drawn.count(f'aria-label="{escape(cell.metadata.mystnb.image.alt)}"') == 2
                assert all(re.search(rf">(?:[^<]*\b)?{KIND}\b", part) for part in drawn.split("<svg")[1:])


def test_no_colour_of_a_figure_vanishes_in_the_dark(html):
    """Contrast of 3 to the dark ground, as WCAG asks of lines (1.4.11), but for what the style changes."""
    lighter = re.findall(r"--sb-([0-9a-f]{6}):", (chapters.PROJECT / "book/_static/specbook.css").read_text())
    for page in pages(html):
        used = set(re.findall(r"--sb-([0-9a-f]{6})", page.read_text()))
        assert {name for name in used - {*lighter} if luminance(name) < 3 * 0.056 - 0.05} == set(), page.name


def luminance(name: str) -> float:
    """Of a colour `rrggbb`, 0 to 1: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance."""
    parts = [int(name[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_front_page_has_its_answer_and_figure(html):
    text = (html / "book" / "index.html").read_text()
    assert "Answer." in text
    assert text.count('<svg class="sb-svg') == 2


def test_a_page_alone_is_the_books_page_and_shows_a_change(root, html, group, tmp_path):
    """The book's chapters share a kernel, of which a page must not show. The change is one in words only."""
    shown = config.in_book(QUICKEST, "cpu", group)
    (sweep,) = config.load(QUICKEST, "cpu", shown).parts()
    spelt_out = {"domains": [*sweep.domains]}
    done = render.execute(QUICKEST, group=shown, out_folder=tmp_path, parameters=spelt_out, book=group)
    alone, whole = (nbformat.read(page, 4) for page in (done, root / "book" / "executed" / done.name))
    (cell,) = [cell for cell in alone.cells if INJECTED in cell.metadata.get("tags", [])]
    assert "hide-input" not in cell.metadata.tags  # a reader sees which parameters were used
    assert 'domains = ["' in cell.source
    assert content(alone) == content(whole)


def content(page: nbformat.NotebookNode) -> tuple[dict, list]:
    """Metadata, cells and outputs but for the parameters, which shift the numbers of the cells after them."""
    cells = [cell for cell in page.cells if INJECTED not in cell.metadata.get("tags", [])]
    outputs = [{**output, "execution_count": None} for cell in cells for output in cell.get("outputs", [])]
    return page.metadata, [[(cell.id, cell.source, cell.metadata) for cell in cells], outputs]


def test_an_unknown_parameter_is_refused_with_the_near_match(root, tmp_path):
    with pytest.raises(ConfigError, match=r"'num_speculative_token'.*did you mean 'num_speculative_tokens'"):
        render.execute("02_eagle3", out_folder=tmp_path, parameters={"num_speculative_token": [3]})


def test_an_unknown_notebook_is_refused_with_the_near_match(root, tmp_path):
    with pytest.raises(ConfigError, match="did you mean '02_eagle3'"):
        render.execute("02_eagle", out_folder=tmp_path)


def test_a_failing_cell_is_one_clear_error(tmp_path, monkeypatch):
    bad = nbformat.read(chapters.PROJECT / "notebooks" / f"{QUICKEST}.ipynb", 4)
    (parameters,) = [cell for cell in bad.cells if "parameters" in cell.metadata.get("tags", [])]
    bad.cells = [parameters, nbformat.v4.new_code_cell("raise ValueError(f'no domain {group!r}')")]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(bad, tmp_path / "notebooks" / "00_bad.ipynb")
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    with pytest.raises(SpecbookError, match=r"^00_bad, cell \d+: ValueError: no domain 'full'$"):
        render.execute("00_bad", out_folder=tmp_path)


def test_a_warning_fails_the_build_each_time(tmp_path, monkeypatch):
    """Of a book with the project's settings and two pages: Sphinx takes a while over all of them."""
    shutil.copytree(chapters.PROJECT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("executed"))
    shutil.copy(chapters.PROJECT / "_config.yml", tmp_path)
    toc = {"format": "jb-book", "root": "book/index", "parts": [{"chapters": [{"file": "book/page"}]}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(toc))
    (tmp_path / "book" / "index.md").write_text("# A book\n")
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "book" / "page.md").write_text("# A page\n\nSee {ref}`nowhere-at-all`.\n")
    for _ in range(2):
        with pytest.raises(SpecbookError, match="nowhere-at-all"):
            render.html()


def test_the_records_show_every_takeaway(root, html, group):
    if group != "full":
        pytest.skip("findings are about the shipped records")
    for name, notebook in executed(root).items():
        for cell in (cell for cell in notebook.cells if "takeaway(" in cell.source):
            shown = [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", [])]
            assert any("**Takeaway.**" in text for text in shown), f"{name}: {cell.source}"


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of every quick plan. That the shipped numbers are rebuilt, each build of the book asks."""
    folder = tmp_path_factory.mktemp("results")
    shutil.copy(chapters.PROJECT / "results" / "published.csv", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_RESULTS", str(folder))
        for sweep in (
            part for name in render.chapters() for part in config.load(name, "cpu", "quick").parts()
        ):
            synthetic.write(sweep)
        drifting.write(config.load("04_domain_drift", "cpu", "quick"))
        mixtures.write(config.load("05_moe", "cpu", "quick"))
    return folder


@pytest.mark.parametrize("name", chapters.NAMES)
def test_visible_cells_alone_rebuild_the_numbers(made_up, monkeypatch, name):
    shown = filter(chapters.visible, chapters.cells(name))
    assert any("assert_allclose(by_hand" in cell.source for cell in shown)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(made_up))
    assert chapters.run(name, only_visible=True, group="quick")
