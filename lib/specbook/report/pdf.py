"""The book as one PDF: all pages on one by Sphinx's `singlehtml`, printed by a Chromium without a window."""

import shutil
import subprocess
from pathlib import Path

from specbook.errors import ConfigError, SpecbookError
from specbook.report import render

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--no-pdf-header-footer",
)  # fmt: skip
SCRIPTS_MS = 10_000
"""Milliseconds of the page's own clock that its scripts get before it is printed."""
LIMIT_S = 300


def write(browser: str | None) -> Path:
    """Print the book with this Chromium, a path (None: there is none); returns `_build/specbook.pdf`.

    Raises:
        ConfigError: if there is no Chromium.
        SpecbookError: if jupyter-book or Chromium fails.
    """
    if browser is None:
        raise ConfigError("no Chromium to print a PDF with. To fix: sudo apt-get install chromium")
    built = render.jupyter_book("singlehtml")
    page, pdf = built / "print.html", built.parent / "specbook.pdf"
    shutil.copy(built / "book" / "index.html", page)  # its links to styles are those of a page at the top
    command = [browser, *FLAGS, f"--virtual-time-budget={SCRIPTS_MS}", f"--print-to-pdf={pdf}", page.as_uri()]
    pdf.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise SpecbookError(f"{browser} took more than {LIMIT_S} s to print {page}") from error
    if done.returncode != 0 or not pdf.is_file():
        raise SpecbookError(f"{browser} printed nothing: {done.stderr.strip()[-200:]}")
    return pdf
