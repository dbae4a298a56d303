"""What a server counts: read of its page in Prometheus' text format, and between two readings."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import BaseModel

from specbook.engine.base import Counters, Pulse, known
from specbook.errors import EngineError

T = TypeVar("T", bound=BaseModel)
SETTLE_S = 5.0
"""A server may count a finished request a moment after its last byte left."""


def samples(text: str, own: str) -> Iterator[Sample]:
    """Finite samples whose names begin as the pattern `own` says, without exemplars.

    No other line is looked at; one that is not in this format is left out.
    """
    for line in filter(re.compile(own).match, text.splitlines()):
        with suppress(ValueError):
            for family in text_string_to_metric_families(line.partition(" # ")[0]):
                yield from (sample for sample in family.samples if math.isfinite(sample.value))


def totals(text: str, own: str) -> Counter[str]:
    """The same by name, summed over labels; what the page does not have is 0."""
    summed = Counter[str]()
    for sample in samples(text, own):
        summed[sample.name] += sample.value
    return summed


def by_position(text: str, name: str, label: str = "position") -> Counter[int]:
    """The counter `name` by the position in a draft, from 0, that `label` tells; summed over other labels."""
    counted = Counter[int]()
    for sample in samples(text, f"{name}\\b"):
        counted[int(sample.labels[label])] += int(sample.value)
    return counted


def pulse(text: str, prefix: str, queued: Iterable[str], prefill: str) -> Pulse:
    """The pulse of a page; not parsed, since it is taken while others are measured.

    Args:
        prefix: how the engine's own names begin.
        queued: gauges of the requests that run, and of those that wait.
        prefill: histogram of how long a prompt takes, in seconds.
    """
    figures = tuple(line for line in text.splitlines() if line.startswith(prefix))

    def total(name: str) -> float:
        own = (line for line in figures if line.startswith((f"{name}{{", f"{name} ")))
        try:
            return sum(float(line.rsplit(" ", 1)[1]) for line in own)
        except ValueError:  # no page of this format
            return 0.0

    prefill_s, prefills = (total(f"{prefill}_{part}") for part in ("sum", "count"))
    return Pulse(figures, sum(map(total, queued)), prefill_s / prefills if prefills else 0.0)


def lacking(text: str, name: str, title: str, release: str) -> str:
    """Why a page without the counter `name` cannot be read as that of the engine `title`.

    `release`: the one whose names are known.
    """
    owner = next((each for each in known() if each.page_counters(text, "") is not None), None)
    if owner is None or owner.title == title:
        return f"/metrics has no {name}: this {title} release is not one specbook knows ({release})"
    return f"/metrics is a page of {owner.title}, not of {title}. To fix: name `engine: {owner.name}`"


def delta(before: Counters, after: Counters) -> Counters:
    """What happened between two readings.

    Raises:
        EngineError: if another process counts than before, or a counter went backwards: the server was
            restarted in between, or several share one address.
    """
    if before.processes != after.processes:
        raise EngineError(
            "another process counts than before: was the server restarted, or do several share the address?"
        )
    drafted = after.spec_decode and _grown(before.spec_decode, after.spec_decode)
    return Counters(_grown(before.server, after.server), drafted, after.lacks, after.processes)


def not_of(counted: Counters, output_tokens: int | None) -> str | None:
    """Why what was `counted` while one answer came is not that answer's; None where nothing says so."""
    if counted.server.requests_finished == 0:
        return "its counters did not move with this answer: another server gave it, or counts it elsewhere"
    if output_tokens is not None and counted.server.generation_tokens < output_tokens:
        return (
            f"its counters tell of {counted.server.generation_tokens} output tokens, and this answer had "
            f"{output_tokens}: another server gave it"
        )
    return None


def _grown(before: T | None, after: T) -> T:
    """How much each counter grew, from 0 where there was none before."""
    grown = {name: _difference(name, getattr(before, name, None), value) for name, value in after}
    return type(after)(**grown)


def _difference(name: str, before: Any, after: Any) -> Any:
    if after is None:
        return None
    if isinstance(after, tuple):
        before = before or (0,) * len(after)
        if len(before) != len(after):
            raise EngineError(f"{name} had {len(before)} positions, and has {len(after)}: another server's?")
        return tuple(_difference(name, a, b) for a, b in zip(before, after, strict=True))
    before = before or 0
    if after < before:
        raise EngineError(f"{name} went from {before:g} to {after:g}: server restarted?")
    return after - before


def settled(read: Callable[[], Counters], before: Counters, finished: int) -> Counters:
    """What `read` gives once `finished` requests more than `before` are counted, or after `SETTLE_S`.

    At once of an engine that counts no requests: its page is as of the last one.
    """
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = read()
        counted = delta(before, now).server.requests_finished
        if counted is None or counted >= finished or time.monotonic() > deadline:
            return now
        time.sleep(0.05)
