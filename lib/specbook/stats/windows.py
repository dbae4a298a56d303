"""What the requests of one window say: the time in which every slot is taken, decode steps, looping answers.

A closed loop of C slots begins with C requests at once, whose prefills share the first steps, and ends with
slots that nothing refills. In between each answer is followed by the next request at once. Only that time
is a batch of C. Rows are those of one window, columns `records.REQUEST_COLUMNS`; their order does not
matter. Poisson arrivals have no slots, and no steady time.

The engine sends a chunk a step. Where reader and engine share few cores the reader comes late and finds two
chunks at once: one gap of two steps and one of next to nothing. Their median is then no step at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FULL = 0.95
"""Least share of the slots that may be taken on average: below it, a window is not of its concurrency."""
ROUNDING_S = 1e-3
"""Records round clocks: a last chunk may come so much after the end of its answer."""
TOGETHER = 0.1
"""Share of a step: chunks that are less apart came as one."""
LEAST_S = 1e-4
"""Chunks that are less apart came as one, whatever else came: no engine's step is so short."""
FIRST_CHUNKS = 3
"""The first chunk, and as many on its heels, that came as one: two may be chance."""
LONG = 90
"""Percentile of the gaps that no bunch of fewer than ten chunks pulls towards zero."""
REPETITIONS = 6
"""Repetitions of a unit that make a loop: a table, an array or a code block has two or three rows alike."""
LOOP_CHARACTERS = 80
"""Least length of a loop: a rule of dashes, an indent or a row of zeros is shorter."""


Rows = pd.DataFrame | Mapping[str, np.ndarray]
"""As a table, or as its columns."""


class Span(NamedTuple):
    """Part of a window, in seconds since its first request was sent."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def whole(rows: Rows) -> Span:
    """From the first request sent to the last answer's end."""
    start_s, end_s = _ends(rows)
    return Span(float(start_s.min()), float(end_s.max()))


def steady(rows: Rows, concurrency: int) -> Span | None:
    """The time in which every slot is taken; None where there is none.

    It begins when the last of the first `concurrency` requests has ended, and ends when the last request
    starts. One slot is taken from beginning to end, so that its span is the whole window.
    """
    if concurrency == 1:
        return whole(rows)
    start_s, end_s = _ends(rows)
    if len(start_s) <= concurrency:
        return None
    first = np.argsort(start_s, kind="stable")[:concurrency]
    span = Span(float(end_s[first].max()), float(start_s.max()))
    return span if span.seconds > 0 else None


def mean_concurrency(rows: Rows, within: Span) -> float:
    """Requests in flight, averaged over the time of `within`."""
    start_s, end_s = _ends(rows)
    return float(_overlap_s(start_s, end_s, within).sum()) / within.seconds


def arrived(rows: Rows, within: Span) -> NDArray[np.bool_]:
    """[n] Whether the request was sent in this time.

    The last ones end after it, in a batch that shrinks: with eight requests a slot they are one in seven.
    """
    start_s, _ = _ends(rows)
    return (start_s >= within.start_s) & (start_s <= within.end_s)


def output_tokens_per_s(rows: Rows, within: Span) -> float:
    """Output tokens a second over all slots.

    The tokens of an answer are spread over its chunks: one on the first, the others evenly on those after it.
    The first chunk comes TTFT after the start, each other one a gap of `itl_s` later.
    """
    return _tokens(rows, within, first=True) / within.seconds


def decode_tokens_per_s(rows: Rows, within: Span) -> float:
    """Output tokens a second of one sequence, TTFT left out: tokens after the first chunk over decoding time.

    The tokens are spread as in `output_tokens_per_s`, so that over the whole window it is
    sum(tokens - 1) / sum(E2E - TTFT). NaN where nothing was decoded.
    """
    start_s, end_s = _ends(rows)
    several = np.asarray(rows["output_tokens"]) > 1
    first_s = start_s + np.asarray(rows["ttft_s"], dtype=float)
    decoding_s = float(_overlap_s(first_s, end_s, within)[several].sum())
    return _tokens(rows, within, first=False) / decoding_s if decoding_s > 0 else np.nan


def _tokens(rows: Rows, within: Span, first: bool) -> float:
    """Tokens of the chunks that came within the span, first ones only if `first`."""
    gaps_s, tokens = list(rows["itl_s"]), np.asarray(rows["output_tokens"], dtype=float)
    first_s = np.asarray(rows["start_s"], dtype=float) + np.asarray(rows["ttft_s"], dtype=float)
    at_s = first_s[:, None] + np.column_stack([np.zeros(len(gaps_s)), _padded(gaps_s)]).cumsum(axis=1)
    inside = (at_s >= within.start_s) & (at_s <= within.end_s + ROUNDING_S)
    firsts, later = inside[:, 0] & first, np.array(list(map(len, gaps_s)))
    spread = firsts + (tokens - 1) * np.count_nonzero(inside[:, 1:], axis=1) / np.maximum(later, 1)
    return sum(np.where(later > 0, spread, firsts * tokens).tolist())  # without later ones it came as one


def _padded(streams: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """[streams, longest] The gaps of each, in seconds; infinite after its last."""
    lengths = np.array(list(map(len, streams)), dtype=int)
    gaps_s = np.full((len(lengths), lengths.max(initial=0)), np.inf)
    gaps_s[np.arange(gaps_s.shape[1]) < lengths[:, None]] = np.concatenate([[], *streams])
    return gaps_s


def _ends(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    start_s = np.asarray(rows["start_s"], dtype=float)
    return start_s, start_s + np.asarray(rows["e2e_s"], dtype=float)


def _overlap_s(start_s: NDArray[np.float64], end_s: NDArray[np.float64], within: Span) -> NDArray[np.float64]:
    return np.clip(np.minimum(end_s, within.end_s) - np.maximum(start_s, within.start_s), 0.0, None)


def steps_s(streams: Iterable[Sequence[float]]) -> NDArray[np.float64]:
    """[n] Seconds of each decode step, of streams whose gaps between chunks are given, in seconds.

    Chunks that came as one share the time that passed before them. What came as one with a stream's first
    chunk has no time of its own, and is left out.
    """
    own = [np.asarray(gaps, dtype=float) for gaps in streams]
    gaps = np.concatenate([np.empty(0), *own])
    if not len(gaps):
        return gaps
    parts = gaps >= max(TOGETHER * float(np.percentile(gaps, LONG)), LEAST_S)
    begins = np.zeros(len(gaps), dtype=bool)
    begins[np.cumsum([0, *filter(None, map(len, own))])[:-1]] = True
    bunch = np.cumsum(parts | begins) - 1  # a stream's chunks never lie in one with another's
    shared = np.bincount(bunch, weights=gaps) / np.bincount(bunch)
    with_first = (begins & ~parts)[parts | begins]
    return shared[bunch][~with_first[bunch]]


def step_s(streams: Iterable[Sequence[float]]) -> float:
    """The median of `steps_s`; NaN without any."""
    steps = steps_s(streams)
    return float(np.median(steps)) if len(steps) else np.nan


@lru_cache(maxsize=65_536)  # greedy arms and restarts repeat each other's answers
def repeats(text: str) -> bool:
    """Whether the text ends in a loop: a unit of any length that stands there REPETITIONS times or more.

    A greedy model in a loop goes on until the output cap, which may cut off the last repetition. Whatever
    closes a list, a table or a block after its last row ends the loop, so that an answer that stopped by
    itself rarely counts. One that counts upwards does not repeat a unit, and is not seen.
    """
    periods = range(1, len(text) // REPETITIONS + 1)
    ends = ((period, max(LOOP_CHARACTERS, REPETITIONS * period)) for period in periods)
    return any(n <= len(text) and text[-n:-period] == text[period - n :] for period, n in ends)


def late_first_chunks(rows: Rows, a_step_s: float | None = None) -> NDArray[np.bool_]:
    """[n] Whether the stream stood still at first, so that the first FIRST_CHUNKS chunks came as one.

    They waited somewhere between the engine and the client, and TTFT says how long; in the worst case the
    whole answer comes at once, TTFT is nearly E2E, and TPOT next to nothing. E2E, and with it the speed of
    the window, is what a reader waited, as ever. A step is that of this window, unless it is given.
    """
    a_step_s = step_s(rows["itl_s"]) if a_step_s is None else a_step_s
    longest_s = max(TOGETHER * np.nan_to_num(a_step_s), LEAST_S)  # NaN where all streams stood still
    first = [own[: FIRST_CHUNKS - 1] for own in rows["itl_s"]]
    enough = np.array(list(map(len, first)), dtype=int) == FIRST_CHUNKS - 1
    return enough & (_padded(first) < longest_s).all(axis=1)
