"""Traffic in phases, sent in one window while counters are read; servers that take turns at it."""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import Field, model_validator

from specbook.bench import loadgen
from specbook.config import prompt_files as files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import (
    MOST_REQUESTS,
    Frozen,
    Load,
    Name,
    Point,
    Speculation,
    Target,
    Traffic,
    one_kind,
)
from specbook.engine.base import Counters
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import Episode, Readings, Requests
from specbook.stats import windows

T = TypeVar("T")
TIMEOUT_S = 1800
WARM_SEED = 999_983
"""Far from those of windows that are kept."""
EARLY_S = 0.25
"""A reading may come so much before its time: it is called for twice a second, and would else be late."""


class Phases(Frozen):
    """Requests whose domains change along the way."""

    phases: tuple[Annotated[tuple[Name, ...], Field(min_length=1)], ...] = Field(min_length=1)
    """Domains of each phase, all phases alike in requests."""
    ramp: float = Field(default=0.0, ge=0, le=1)
    """Share of a phase over which its domains gradually take the place of those before; 0: at once."""
    num_requests: int = Field(ge=1, le=MOST_REQUESTS)
    concurrency: int | None = Field(default=None, ge=1)
    request_rate_per_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_tokens: int = Field(ge=1)
    scrape_s: float = Field(default=1.0, ge=0.5, allow_inf_nan=False)
    """Between two readings of the counters."""

    @model_validator(mode="after")
    def _can_be_sent(self) -> "Phases":
        one_kind(self.concurrency, self.request_rate_per_s)
        if self.num_requests < len(self.phases):
            raise ValueError(f"{self.num_requests} requests are too few for {len(self.phases)} phases")
        return self

    @property
    def load(self) -> Load:
        """How they arrive."""
        return Load(
            concurrency=self.concurrency, request_rate_per_s=self.request_rate_per_s,
            num_requests=self.num_requests, num_warmups=0,
        )  # fmt: skip

    def starts(self) -> list[int]:
        """Places of the first request of each phase."""
        return [self.num_requests * i // len(self.phases) for i in range(len(self.phases))]

    def points(self, target: Target, speculation: Speculation | None) -> list[Point]:
        """A window's parts as a sweep would ask for them, one for each domain of each phase."""
        each = self.num_requests / len(self.phases)
        shares = [(name, each / len(phase)) for phase in self.phases for name in phase]
        return [
            Point(
                chapter="drift", target=target, speculation=speculation, restart=0,
                traffic=Traffic(domain=name, max_tokens=self.max_tokens),
                load=self.load.model_copy(update={"num_requests": max(1, round(share))}),
            )
            for name, share in shares
        ]  # fmt: skip

    def prompts(self, seed: int) -> list[Prompt]:
        """[num_requests], drawn for this seed; ConfigError if a domain has no prompts."""
        rng, names = random.Random(seed), {domain for phase in self.phases for domain in phase}
        by_domain = {name: files.for_traffic(Traffic(domain=name)) for name in sorted(names)}
        return [rng.choice(by_domain[rng.choice(self._phase(i, rng))]) for i in range(self.num_requests)]

    def _phase(self, place: int, rng: random.Random) -> tuple[str, ...]:
        starts = self.starts()
        now = max(i for i, start in enumerate(starts) if start <= place)
        length = self.num_requests / len(self.phases) * self.ramp
        share = (place - starts[now]) / length if length else 1.0
        return self.phases[now if now == 0 or rng.random() < share else now - 1]


class ClosedLoops(Frozen):
    """Closed loops of one domain at several batches, each in turns."""

    domain: Name
    concurrency: tuple[int, ...] = Field(min_length=1)
    turns: int = Field(ge=1)
    requests_per_sequence: int = Field(ge=1)
    """Number of requests in a turn, for each sequence of the batch."""
    max_tokens: int = Field(ge=2)

    def phases(self, batch: int) -> Phases:
        """A turn's requests at this batch."""
        return Phases(
            phases=((self.domain,),), num_requests=batch * self.requests_per_sequence, concurrency=batch,
            max_tokens=self.max_tokens,
        )  # fmt: skip


class Reader:
    """Called again and again, it reads a server's counters when it is time to."""

    def __init__(self, read: Callable[[], Counters | None], period_s: float) -> None:
        self._read, self._period_s, self._next = read, period_s, time.perf_counter()
        self.rows: list[tuple[float, int | None, int | None]] = []

    def __call__(self) -> bool:
        """Whether there is a new reading, be it one of a server that gave none."""
        now = time.perf_counter()
        if now < self._next:
            return False
        try:
            counted = self._read()
            spec_decode = counted.spec_decode if counted else None
        except (EngineError, ValueError):  # gone, too busy, or half a page: the last good one stands
            spec_decode = None
        self._next = now + self._period_s - EARLY_S
        counts = (spec_decode.num_drafts, spec_decode.num_accepted_tokens) if spec_decode else (None, None)
        self.rows.append((now, *counts))
        return True

    def readings(self, zero_s: float) -> Readings:
        """All readings, on the clock that begins at `zero_s`."""
        at, drafts, accepted = zip(*self.rows, strict=True) if self.rows else ((), (), ())
        return Readings(
            at_s=tuple(round(t - zero_s, 4) for t in at), num_drafts=drafts, num_accepted_tokens=accepted
        )


def send(
    how: Phases, server: Server, seed: int, watch: Callable[[], None] = lambda: None, url: str | None = None
) -> dict[str, Any]:
    """Send the phases to a server that is up; returns the load generator's result.

    Args:
        server: its target and API key are used.
        seed: of the prompts.
        watch: called twice a second.
        url: of a router before the server; None for the server's own.

    Raises:
        EngineError: if it fails, or takes too long.
    """
    chosen = how.prompts(seed)
    point = Point(
        chapter="drift", target=server.target, speculation=None, restart=seed, load=how.load,
        traffic=Traffic(domain=chosen[0].domain or "mixed", max_tokens=how.max_tokens, seed=seed),
    )  # fmt: skip
    with loadgen.scratch() as folder:
        return loadgen.send(
            folder / "window", point, chosen, url or server.client.url,
            api_key=server.api_key, timeout_s=TIMEOUT_S, watch=watch,
        )  # fmt: skip


def warm(how: Phases, server: Server) -> None:
    """A short window whose numbers nobody keeps: the first batches after a start pay for it."""
    few = min(how.num_requests, 4 * (how.concurrency or 4))
    send(how.model_copy(update={"phases": how.phases[:1], "num_requests": few}), server, WARM_SEED)


def timed(
    server: Server, how: Phases, seed: int, watch: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], float]:
    """Send the phases to a server that is up: the load generator's result, and the median seconds of a step.

    Raises:
        EngineError: if a request failed, or no answer has a step.
    """
    result = send(how, server, seed, watch)
    step_s = windows.step_s(result["itls"])
    if any(result["errors"]) or math.isnan(step_s):
        raise EngineError(f"{server.target.name} answered too little to time a step: {server.last_words()}")
    return result, step_s


@contextmanager
def awake(server: Server) -> Iterator[None]:
    """A paused server runs for the length of the block."""
    server.resume()
    try:
        yield
    finally:
        server.pause()


def in_turns(servers: Sequence[Server], turns: int, measure: Callable[[Server, int], T]) -> list[list[T]]:
    """What `measure` gives for each paused server and turn, [servers][turns].

    In each turn every server is measured once, while the others stand still, in an order drawn for that turn.
    """
    results: list[list[T]] = [[] for _ in servers]
    for turn in range(turns):
        for i in random.Random(turn).sample(range(len(servers)), len(servers)):
            with awake(servers[i]):
                results[i].append(measure(servers[i], turn))
    return results


def episode(how: Phases, result: dict[str, Any], reader: Reader) -> Episode:
    """What a window gave. Load generator and reader read the machine's own clock, so one zero fits both.

    Raises:
        EngineError: if nothing was answered.
    """
    starts, whole = result["start_times"], [not error for error in result["errors"]]
    if not any(whole):
        raise EngineError(f"none of {len(starts)} requests was answered: {loadgen.first_error(result)}")
    zero = min(starts)
    return Episode(
        drift_s=tuple(starts[place] - zero for place in how.starts()[1:]),
        readings=reader.readings(zero),
        requests=Requests(
            start_s=_kept([start - zero for start in starts], whole), ttft_s=_kept(result["ttfts"], whole),
            e2e_s=_kept(result["latencies"], whole), output_tokens=_kept(result["output_lens"], whole),
            sent=len(starts),
        ),
    )  # fmt: skip


def _kept(values: Sequence[Any], whole: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(round(v, 4) for v, good in zip(values, whole, strict=True) if good)
