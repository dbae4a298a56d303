"""Built pages in a real browser, with no network beyond this machine: what a reader on a train sees."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from specbook import render

pytestmark = pytest.mark.browser
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PAGES = ["book/index", "book/method", "book/glossary", "book/pocket_models", "book/references"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


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


@pytest.mark.parametrize("name", [*PAGES, *(f"book/executed/{chapter}" for chapter in render.chapters())])
def test_page_opens_without_an_error_and_shows_its_figures(page, site, name):
    problems: list[str] = []
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(f"not loaded: {request.url}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:")) else problems.append(request.url),
    )
    page.goto(f"{site}/{name}.html", wait_until="load")
    images = page.locator("article img")
    for i in range(images.count()):
        images.nth(i).scroll_into_view_if_needed()
        assert images.nth(i).evaluate("image => image.complete && image.naturalWidth") > 0
    assert not problems
    if "executed" in name:
        assert images.count() >= 5


@pytest.mark.parametrize("name", ["book/index", "book/executed/02_eagle3"])
def test_page_does_not_scroll_sideways_on_a_phone(page, site, name):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/{name}.html", wait_until="load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
