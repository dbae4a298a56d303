"""An open-loop load: Poisson arrivals of streamed requests, each accounted for to its last byte.

Every request opens a connection of its own, since a Service balances connections, not requests.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp
from pydantic import Field

from specbook.config.prompt_files import Prompt
from specbook.config.schema import Frozen
from specbook.engine.streams import BROKEN, StreamReader
from specbook.records.experiment_results import OpenLoopRequests, Outcome

TIMEOUT_S = 300
"""After which an answer counts as lost."""


class Segment(Frozen):
    """A stretch of load at one rate."""

    rate_per_s: float = Field(ge=0, le=1000)
    """Mean arrivals; 0 is silence."""
    duration_s: float = Field(gt=0, le=7200)


@dataclass
class _Answer:
    sent: float
    ttft: float | None = None
    e2e: float = 0.0
    tokens: int = 0
    error: str | None = "unanswered"
    """None once it is whole."""

    @property
    def outcome(self) -> Outcome:
        if self.error is None:
            return "whole"
        return "refused" if self.ttft is None else "truncated"


@dataclass
class OpenLoop:
    """A load on `url`, sent from a thread of its own between `start` and `join`."""

    url: str
    model: str
    segments: Sequence[Segment]
    prompts: Sequence[Prompt]
    max_tokens: int
    seed: int
    may_end: Callable[[], bool] = lambda: False
    """Asked in the last segment's second half: whether it may end before its time."""
    zero: float = 0.0
    """`time.time()` of the first segment's start."""
    segments_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    _answers: list[_Answer] = field(default_factory=list)
    _failure: BaseException | None = None

    def start(self) -> None:
        """Begin to send."""
        self.zero = time.time()
        self._thread = threading.Thread(target=self._run, name="open-loop", daemon=True)
        self._thread.start()

    def join(self) -> OpenLoopRequests:
        """All requests, once each has been answered or has failed."""
        self._thread.join()
        if self._failure:
            raise self._failure
        rows = sorted(self._answers, key=lambda one: one.sent)
        return OpenLoopRequests(
            sent_s=tuple(round(one.sent - self.zero, 3) for one in rows),
            ttft_s=tuple(None if one.ttft is None else round(one.ttft, 4) for one in rows),
            e2e_s=tuple(round(one.e2e, 4) for one in rows),
            output_tokens=tuple(one.tokens for one in rows),
            outcome=tuple(one.outcome for one in rows),
            errors=dict(Counter(one.error for one in rows if one.error)),
        )

    @property
    def alive(self) -> bool:
        """Whether requests are still being sent or answered."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self._failure = error

    async def _send(self) -> None:
        rng, sending = random.Random(self.seed), set()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
            for segment in self.segments:
                begun = time.time()
                self.segments_s.append(round(begun - self.zero, 3))
                for due in _arrivals(rng, segment):
                    if not await self._reached(begun + due, segment, begun):
                        break
                    if due < segment.duration_s:
                        task = asyncio.create_task(self._ask(session, rng.choice(self.prompts)))
                        sending.add(task)
                        task.add_done_callback(sending.discard)
            self.ended_s = round(time.time() - self.zero, 3)
            while sending:
                await asyncio.wait(sending)

    async def _reached(self, due: float, segment: Segment, begun: float) -> bool:
        """Wait until `due`; False if the last segment may end before."""
        while (wait := due - time.time()) > 0:
            half_over = time.time() - begun > segment.duration_s / 2
            if segment is self.segments[-1] and half_over and self.may_end():
                return False
            await asyncio.sleep(min(wait, 1.0))
        return True

    async def _ask(self, session: aiohttp.ClientSession, prompt: Prompt) -> None:
        answer = _Answer(sent=time.time())
        self._answers.append(answer)
        began = time.perf_counter()
        body = {
            "model": self.model, "messages": prompt.turns(), "max_tokens": self.max_tokens, "temperature": 0,
            "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        try:
            async with session.post(f"{self.url}/v1/chat/completions", json=body) as response:
                if response.status != 200:
                    answer.error = f"status {response.status}"
                    return
                await _read(response, answer, began)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            answer.error = type(error).__name__
        finally:
            answer.e2e = time.perf_counter() - began


def _arrivals(rng: random.Random, segment: Segment) -> Iterator[float]:
    """Seconds of each arrival within a segment, and at last its end: the same for a seed, however late they
    are sent."""
    at = 0.0
    while segment.rate_per_s and (at := at + rng.expovariate(segment.rate_per_s)) < segment.duration_s:
        yield at
    yield segment.duration_s


async def _read(response: aiohttp.ClientResponse, answer: _Answer, began: float) -> None:
    reader = StreamReader()
    try:
        async for data in response.content.iter_any():
            pieces = [piece for piece in reader.feed(data) if piece.has_token]
            if pieces and answer.ttft is None:
                answer.ttft = time.perf_counter() - began
    finally:
        reader.end()
        answer.tokens = reader.output_tokens or 0
    answer.error = None
    if reader.error:
        answer.error = f"error in the stream: {reader.error_type}"  # its message may differ each time
    elif reader.finish_reason in BROKEN:
        answer.error = f"the stream ended with {reader.finish_reason}"
    elif reader.problem():
        answer.error = "the stream ended before its last chunk"
