"""The steady window of a closed loop: the time in which every slot is taken.

A closed loop of C slots begins with C requests at once, whose prefills share the first steps, and ends with
slots that nothing refills. In between each answer is followed by the next request at once. Only that time
is a batch of C. Rows are those of one window, columns `records.REQUEST_COLUMNS`; their order does not
matter. Poisson arrivals have no slots, and no steady window.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FULL = 0.95
"""Least share of the slots that may be taken on average: below it, a window is not of its concurrency."""
ROUNDING_S = 1e-3
"""Records round clocks: a last chunk may come so much after the end of its answer."""


class Span(NamedTuple):
    """Part of a window, in seconds since its first request was sent."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def whole(rows: pd.DataFrame) -> Span:
    """From the first request sent to the last answer's end."""
    start_s, end_s = _ends(rows)
    return Span(float(start_s.min()), float(end_s.max()))


def span(rows: pd.DataFrame, concurrency: int) -> Span | None:
    """The time in which every slot is taken; None where there is none.

    It begins when the last of the first `concurrency` requests has ended, and ends when the last request
    starts. One slot is taken from beginning to end, so that its span is the whole window.
    """
    if concurrency == 1:
        return whole(rows)
    start_s, end_s = _ends(rows)
    if len(rows) <= concurrency:
        return None
    first = np.argsort(start_s, kind="stable")[:concurrency]
    found = Span(float(end_s[first].max()), float(start_s.max()))
    return found if found.seconds > 0 else None


def mean_concurrency(rows: pd.DataFrame, within: Span) -> float:
    """Requests in flight, averaged over the time of `within`."""
    start_s, end_s = _ends(rows)
    return float(_overlap_s(start_s, end_s, within).sum()) / within.seconds


def arrived(rows: pd.DataFrame, within: Span) -> NDArray[np.bool_]:
    """[n] Whether the request was sent in this time.

    The last ones end after it, in a batch that shrinks: with eight requests a slot they are one in seven.
    """
    start_s, _ = _ends(rows)
    return (start_s >= within.start_s) & (start_s <= within.end_s)


def output_tokens_per_s(rows: pd.DataFrame, within: Span) -> float:
    """Output tokens a second over all slots.

    The tokens of an answer are spread over its chunks: one on the first, the others evenly on those after it.
    The first chunk comes TTFT after the start, each other one a gap of `itl_s` later.
    """
    return _tokens(rows, within, first=True) / within.seconds


def decode_tokens_per_s(rows: pd.DataFrame, within: Span) -> float:
    """Output tokens a second of one sequence, TTFT left out: tokens after the first chunk over decoding time.

    The tokens are spread as in `output_tokens_per_s`, so that over the whole window it is
    sum(tokens - 1) / sum(E2E - TTFT). NaN where nothing was decoded.
    """
    start_s, end_s = _ends(rows)
    several = rows["output_tokens"].to_numpy() > 1
    first_s = start_s + rows["ttft_s"].to_numpy(float)
    decoding_s = float(_overlap_s(first_s, end_s, within)[several].sum())
    return _tokens(rows, within, first=False) / decoding_s if decoding_s > 0 else np.nan


def _tokens(rows: pd.DataFrame, within: Span, first: bool) -> float:
    columns = (rows[name] for name in ("start_s", "ttft_s", "itl_s", "output_tokens"))
    return sum(_inside(*row, within, first) for row in zip(*columns, strict=True))


def _inside(
    start_s: float, ttft_s: float, gaps_s: NDArray[np.float64], tokens: int, within: Span, first: bool
) -> float:
    """Tokens of one answer whose chunks came within the span."""
    at_s = start_s + ttft_s + np.concatenate([[0.0], np.cumsum(np.asarray(gaps_s, dtype=float))])
    inside = (at_s >= within.start_s) & (at_s <= within.end_s + ROUNDING_S)
    later = len(at_s) - 1
    if later == 0:  # the whole answer came as one
        return float(tokens if first and inside[0] else 0)
    return float(first and inside[0]) + (tokens - 1) * np.count_nonzero(inside[1:]) / later


def _ends(rows: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    start_s = rows["start_s"].to_numpy(float)
    return start_s, start_s + rows["e2e_s"].to_numpy(float)


def _overlap_s(start_s: NDArray[np.float64], end_s: NDArray[np.float64], within: Span) -> NDArray[np.float64]:
    return np.clip(np.minimum(end_s, within.end_s) - np.maximum(start_s, within.start_s), 0.0, None)
