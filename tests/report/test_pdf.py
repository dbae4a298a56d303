"""The book on paper: a Chromium prints one page, and says what it could not."""

import pytest

import tools
from specbook.errors import ConfigError, SpecbookError
from specbook.report import render

PAGE = "<title>A book</title><h1>A book</h1><p>Its page.</p>"


@pytest.fixture
def single(tmp_path, monkeypatch):
    """A book whose only page is PAGE, as if Sphinx had made it."""
    built = tmp_path / "_build" / "singlehtml"
    (built / "book").mkdir(parents=True)
    (built / "book" / "index.html").write_text(PAGE)
    monkeypatch.setattr(render, "jupyter_book", lambda builder: built)
    return tmp_path


def test_chromium_prints_the_page(single):
    printed = render.pdf(tools.need("chromium"))
    assert printed == single / "_build" / "specbook.pdf"
    assert printed.read_bytes().startswith(b"%PDF-")


def test_without_chromium_one_line_says_what_to_install(single):
    with pytest.raises(ConfigError, match=r"no Chromium .* To fix: sudo apt-get install chromium"):
        render.pdf(None)


def test_a_browser_that_fails_leaves_no_old_pdf(single):
    old = single / "_build" / "specbook.pdf"
    old.write_text("of another book")
    with pytest.raises(SpecbookError, match="printed nothing"):
        render.pdf("/bin/false")
    assert not old.exists()
