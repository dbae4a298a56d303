"""What a server counted between two readings."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from specbook.engine.base import Counters
from specbook.errors import EngineError

T = TypeVar("T", bound=BaseModel)
SETTLE_S = 5.0
"""A server may count a finished request a moment after its last byte left."""


def delta(before: Counters, after: Counters) -> Counters:
    """What happened between two readings.

    Raises:
        EngineError: if a counter went backwards: the server was restarted in between.
    """
    drafted = after.spec_decode and _grown(before.spec_decode, after.spec_decode)
    return Counters(_grown(before.server, after.server), drafted)


def _grown(before: T | None, after: T) -> T:
    """How much each counter grew, from 0 where there was none before."""
    grown = {name: _difference(name, getattr(before, name, None), value) for name, value in after}
    return type(after)(**grown)


def _difference(name: str, before: Any, after: Any) -> Any:
    if isinstance(after, tuple):
        before = before or (0,) * len(after)
        return tuple(_difference(name, a, b) for a, b in zip(before, after, strict=True))
    before = before or 0
    if after < before:
        raise EngineError(f"{name} went from {before:g} to {after:g}: server restarted?")
    return after - before


def settled(read: Callable[[], Counters], before: Counters, finished: int) -> Counters:
    """What `read` gives once `finished` requests more than `before` are counted, or after `SETTLE_S`."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = read()
        if delta(before, now).server.requests_finished >= finished or time.monotonic() > deadline:
            return now
        time.sleep(0.05)
