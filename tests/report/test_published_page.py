"""The table of published numbers in a browser: filtered, sorted, shared by its address, without a network."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from specbook.records import published
from specbook.report import published_page

pytestmark = pytest.mark.browser
STATIC = Path(__file__).parents[2] / "book" / "_static"
SHOWN = "#published tbody tr"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file, with its script and its style beside it, and no theme around it."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(STATIC, folder / "_static")
    body = published_page.render()
    page = folder / "book" / "page.html"
    page.parent.mkdir()
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="../_static/tools.css"></head>'
        f'<body class="bd-article">{body}</body></html>'
    )
    return page.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(address)
    yield opened
    opened.close()
    assert not problems


@pytest.fixture
def rows() -> list[published.PublishedRow]:
    return published.load()


def total(page: Page) -> int:
    return int(page.inner_text("#published-count").split()[0])


def values(page: Page, column: int) -> list[str]:
    return page.eval_on_selector_all(
        f"{SHOWN} td:nth-child({column})", "cells => cells.map(cell => cell.dataset.sort)"
    )


def test_all_rows_are_counted_and_the_first_are_shown(page, rows):
    assert total(page) == len(rows)
    assert page.locator(SHOWN).count() == 50
    page.click("#published-more")
    assert page.locator(SHOWN).count() == 100


def test_filters_combine(page, rows):
    page.select_option("[name=metric]", "acceptance_length")
    page.select_option("[name=hardware]", "1xB200")
    want = [row for row in rows if (row.metric, row.hardware) == ("acceptance_length", "1xB200")]
    assert total(page) == len(want) > 0
    page.fill("[name=q]", "HumanEval p-eagle")
    assert 0 < total(page) < len(want)
    page.click("button[type=reset]")
    page.wait_for_function("document.getElementById('published-count').textContent.includes(' 50 ')")
    assert total(page) == len(rows)


def test_sorting_by_keyboard_puts_numbers_first_and_turns_round(page):
    page.select_option("[name=metric]", "output_tok_s")
    page.focus("th:nth-child(6) button")
    page.keyboard.press("Enter")
    rising = [float(value) for value in values(page, 6)]
    assert rising == sorted(rising)
    assert page.get_attribute("th:nth-child(6)", "aria-sort") == "ascending"
    page.keyboard.press("Space")
    falling = [float(value) for value in values(page, 6)]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > rising[-1]


def test_an_address_brings_the_selection_back(page, address, browser):
    page.select_option("[name=status]", "digitised")
    page.fill("[name=q]", "P-EAGLE")
    again = browser.new_page()
    again.goto(page.url)
    assert total(again) == total(page) > 0
    assert again.input_value("[name=status]") == "digitised"
    again.close()


@pytest.mark.parametrize("nonsense", ["#metric=nothing-such&sort=99", "#=&=&&q=", "#%E0%A4%A", "#sources"])
def test_an_address_with_nonsense_shows_everything(browser, address, rows, nonsense):
    opened = browser.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(address + nonsense)
    assert total(opened) == len(rows)
    assert not problems
    opened.close()


def test_each_row_leads_to_its_source(page):
    page.select_option("[name=system]", "price")
    for target in page.eval_on_selector_all(f"{SHOWN} a", "links => links.map(a => a.getAttribute('href'))"):
        assert page.locator(target).inner_text().strip()


def test_without_a_script_the_whole_table_is_there(browser, address, rows):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(address)
    assert opened.locator(SHOWN).count() == len(rows)
    assert opened.locator(SHOWN).first.is_visible()
    assert not opened.locator("#published-filters").is_visible()
    context.close()


def test_a_phone_shows_cards_and_does_not_scroll_sideways(page):
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("[name=sort]").is_visible()
