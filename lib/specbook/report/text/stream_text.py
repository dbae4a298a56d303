"""First chunks that came late: how many, and what is known of the cause, in words."""

from collections.abc import Iterable

import numpy as np

from specbook.analysis import stream_stalls, summaries
from specbook.records.run import RunRecord


def late_chunks(runs: Iterable[RunRecord]) -> str:
    """How many answers' first chunks came late, and what is known of the cause."""
    found = stream_stalls.found(summaries.pooled_requests(runs))
    if not found.count:
        return f"**Late first chunks.** There are none in {found.requests} requests."
    return (
        f"**Late first chunks.** In {found.count} of {found.requests} requests the first chunks came "
        f"together, though the engine writes them a step apart; in {found.whole} of these the whole answer "
        f"came at once. Most, {found.worst_count} of {found.worst_requests}, are of {found.worst}. "
        f"{_cause(found.pace)} Their TTFT and TPOT time the stream, not the engine; their E2E is what a "
        "reader waited. Where they decide a p99 of TTFT, its point is hollow, and nothing is claimed of it."
    )


def _cause(pace: float) -> str:
    if np.isnan(pace):
        return "The cause is unknown."
    took = f"Per token they took {pace:.2f} times as long as the others of their windows (median, E2E), so"
    if pace < stream_stalls.AS_USUAL:
        return f"{took} the engine wrote as ever, and the chunks waited on their way; why is unknown."
    return f"{took} something held up the engine, or the whole machine; what, is unknown."
