"""What a command says while it works: on a terminal only, and it is gone when the work is done."""

import io
from contextlib import contextmanager

import pytest
from rich.console import Console

from specbook import console


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_a_while_is_said_where_somebody_waits(monkeypatch, terminal):
    screen = io.StringIO()
    shown = Console(file=screen, force_terminal=terminal, width=80)
    monkeypatch.setattr(console, "err", shown)
    with console.busy("reading [all] of it"):
        pass
    assert ("reading [all] of it" in screen.getvalue()) == terminal


def test_what_begins_slowly_runs_without_the_words(monkeypatch):
    said, events = [], []

    @contextmanager
    def starts():
        events.append("starts")
        yield "it runs"
        events.append("ends")

    @contextmanager
    def busy(what):
        said.append(what)
        yield
        events.append("has begun")

    monkeypatch.setattr(console, "busy", busy)
    with console.entered(starts(), "starting it") as running:
        events.append(running)
    assert (said, events) == (["starting it"], ["starts", "has begun", "it runs", "ends"])
