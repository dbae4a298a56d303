"""Built pages in a real browser, with no network beyond this machine: what a reader on a train sees."""

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from specbook.report import render

pytestmark = pytest.mark.browser
PAGES = [
    "book/index",
    "book/method",
    "book/glossary",
    "book/pocket_models",
    "book/published",
    "book/calculator",
    "book/memory",
    "book/references",
]


TOO_WIDE = """Array.from(document.querySelectorAll("article table"))
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText.slice(0, 80))"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(html: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Page]:
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", [*PAGES, *(f"book/executed/{page}" for page in render.pages())])
def test_page_opens_with_figures_and_tables_that_fit(tab, site, name):
    problems: list[str] = []
    tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("requestfailed", lambda request: problems.append(f"not loaded: {request.url}"))
    tab.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:")) else problems.append(request.url),
    )
    tab.goto(f"{site}/{name}.html", wait_until="load")
    assert not problems
    assert tab.locator("article figure:not(:has(svg))").count() == 0
    if "executed" in name:
        assert tab.locator("article .sb-wide:visible").count() >= 2
        assert tab.locator("article .sb-narrow:visible").count() == 0
    assert tab.evaluate(TOO_WIDE) == []


def test_a_figure_is_one_tab_stop_and_its_points_speak(page, site):
    page.goto(f"{site}/book/executed/02_eagle3.html", wait_until="load")
    points, tip = page.locator("#fig-speedup .sb-wide .sb-point"), page.locator(".sb-tip")
    assert points.evaluate_all("all => all.filter(one => one.tabIndex === 0).length") == 1
    points.first.focus()
    first = tip.inner_text()
    assert re.search(r"×.*\n.*\d{8}T\d{6}Z-", first) or "no interval" in first
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() not in ("", first)
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    points.first.hover()
    assert tip.inner_text() == first
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280


def test_figures_follow_dark_mode_and_paper_is_light(page, site):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site}/book/executed/02_eagle3.html", wait_until="load")
    ground = page.locator("#fig-speedup .sb-wide path").first
    dark = "getComputedStyle(document.body).backgroundColor"
    assert ground.evaluate("one => getComputedStyle(one).fill") == page.evaluate(dark)
    assert page.evaluate(dark) != "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert ground.evaluate("one => getComputedStyle(one).fill") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert ground.evaluate("one => getComputedStyle(one).fill") == page.evaluate(dark)


def test_a_phone_gets_figures_with_readable_letters(page, site):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/book/executed/02_eagle3.html", wait_until="load")
    figures = page.locator("article .sb-narrow")
    assert figures.count() >= 4
    for i in range(figures.count()):
        box = figures.nth(i).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    letters = "all => Math.min(...all.map(one => one.getBoundingClientRect().height))"
    assert page.locator("article .sb-narrow text:not([transform*='rotate(-90'])").evaluate_all(letters) >= 9


def test_sliders_play_without_a_kernel(page, site):
    page.goto(f"{site}/book/executed/02_eagle3.html", wait_until="load")
    result = page.locator("#player output")
    before = result.inner_text()
    page.focus("#player [name=k]")
    page.keyboard.press("Home")
    assert result.inner_text() != before
    assert page.locator("#player circle").count() == 16


@pytest.mark.parametrize(
    "name",
    ["book/index", "book/published", "book/calculator", "book/pocket_models", "book/executed/02_eagle3"],
)
def test_page_does_not_scroll_sideways_on_a_phone(tab, site, name):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{site}/{name}.html", wait_until="load")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
