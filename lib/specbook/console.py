"""Output of the commands: one console, and one clear message when something went wrong."""

import errno
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from specbook.errors import SpecbookError

T = TypeVar("T")
LONG = re.compile(r"([^\s'\",:()]{60})[^\s'\",:()]{240,}")
"""A word that no message needs whole, such as a name that is too long for a file."""
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
for each in (out, err):
    if each.width < 1:  # COLUMNS=0: rich would print nothing at all
        each.width = 80


@contextmanager
def one_clear_message(interrupted: str = "interrupted.", code: int = 1) -> Iterator[None]:
    """A mistake the user can fix ends in one message and a non-zero exit, `code`; so does Ctrl-C.

    A name that is too long for a file is such a mistake, whatever was to be done with the file.
    """
    try:
        yield
    except SpecbookError as error:
        complain("specbook:", str(error))
        raise typer.Exit(code) from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        complain(
            "specbook:", f"no file can be called {error.filename!r}: {error.strerror}. To fix: shorten it"
        )
        raise typer.Exit(code) from None
    except KeyboardInterrupt:
        complain("specbook:", interrupted)
        raise typer.Exit(130) from None


def complain(label: str, message: str) -> None:
    """A red label and a message on stderr."""
    # Never as markup: messages quote lists, paths and logs, and rich would eat what stands in brackets.
    err.print(Text.assemble((label, "bold red"), " ", LONG.sub(r"\1...", message)), soft_wrap=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """On a terminal, what is being done and for how long; nothing elsewhere, where nobody waits."""
    if not err.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        bar.add_task(what, total=None)
        yield


@contextmanager
def entered(what_runs: AbstractContextManager[T], what: str) -> Iterator[T]:
    """What runs, while it does; `busy` until it has begun."""
    with ExitStack() as stack:
        with busy(what):
            running = stack.enter_context(what_runs)
        yield running
