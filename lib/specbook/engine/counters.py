"""What a server counted between two readings."""

import time
from collections.abc import Callable

from pydantic import BaseModel

from specbook.engine.base import Counters
from specbook.errors import EngineError
from specbook.records.run import ServerCounters, SpecDecodeCounters

SETTLE_S = 5.0
"""A server may count a finished request a moment after its last byte left."""


def delta(before: Counters, after: Counters) -> Counters:
    """What happened between two readings.

    Raises:
        EngineError: if a counter went backwards: the server was restarted in between.
    """
    server = ServerCounters(**_grown(before.server, after.server))
    if after.spec_decode is None:
        return Counters(server, None)
    first = before.spec_decode or _nothing(len(after.spec_decode.num_accepted_tokens_per_pos))
    return Counters(server, SpecDecodeCounters(**_grown(first, after.spec_decode)))


def _grown(before: BaseModel, after: BaseModel) -> dict[str, float | tuple[int, ...]]:
    return {name: _difference(name, getattr(before, name), value) for name, value in after}


def _difference(name, before, after):
    if isinstance(after, tuple):
        return tuple(_difference(name, a, b) for a, b in zip(before, after, strict=True))
    if after < before:
        raise EngineError(f"{name} went from {before:g} to {after:g}: server restarted?")
    return after - before


def _nothing(positions: int) -> SpecDecodeCounters:
    return SpecDecodeCounters(
        num_drafts=0, num_draft_tokens=0, num_accepted_tokens=0, num_accepted_tokens_per_pos=(0,) * positions
    )


def settled(read: Callable[[], Counters], before: Counters, finished: int) -> Counters:
    """What `read` gives once `finished` requests more than `before` are counted, or after `SETTLE_S`."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = read()
        if delta(before, now).server.requests_finished >= finished or time.monotonic() > deadline:
            return now
        time.sleep(0.05)
