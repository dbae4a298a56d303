"""The answer of the chapter on a server without speculation, and late first chunks in any chapter's."""

from collections.abc import Iterable

import pandas as pd

from specbook.analysis import latency, stream_stalls, summaries
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats.power import MOST_RESTARTS
from specbook.suggestions import listed


def answer(runs: Iterable[RunRecord]) -> str:
    """What the server gives without speculation, in one sentence."""
    runs = RunSet.of(runs).closed
    if not runs:
        return "**Answer.** No closed loop was measured, so no speed can be told."
    speeds = summaries.throughput(runs)
    medians = speeds.groupby(["execution", "concurrency"])["output_tokens_per_s"].median().unstack()
    first, last = medians.columns[0], medians.columns[-1]
    mode = medians[first].idxmax()
    slow, fast = medians.loc[mode, [first, last]]
    clocks = latency.table(runs, (0.5,), by=("concurrency", "execution"))
    tpot_s = clocks.set_index(["metric", "execution", "concurrency"])["value"]["tpot_s", mode, first]
    said = (
        f"**Answer.** Without speculation this server ({mode}) writes **{slow:.0f} tokens/s** at batch "
        f"{first:g}, {1e3 * float(tpot_s):.1f} ms a token"
    )
    if first != last and pd.notna(fast):
        said += (
            f", and **{fast:.0f} tokens/s** at batch {last:g}: {last / first:g} times the requests give "
            f"{fast / slow:.1f} times the tokens"
        )
    return f"{said} (medians over domains and restarts)."


def wide(clocks: pd.DataFrame) -> str:
    """Which latencies of `latency.table` are hardly known, and what would help; empty where none is.

    Made from a table by concurrency and execution.
    """
    each = [
        f"p{100 * row.q:g} of {row.metric.removesuffix('_s').upper()} at batch {row.concurrency:g}, "
        f"{row.execution} ({row.high / row.low:.0f} times; {_cure(int(row.needed))})"
        for row in clocks[clocks["needed"].notna()].itertuples()
    ]
    if not each:
        return ""
    return (
        f"**Wide intervals.** The upper end is more than {latency.WIDE:g} times the lower one for "
        f"{listed(each)}. Such a value cannot be told from any other inside its interval."
    )


def _cure(restarts: int) -> str:
    """What would bring an interval to `latency.WIDE`."""
    if not restarts:
        return "its prompts are too few"
    if restarts > MOST_RESTARTS:
        return f"even {MOST_RESTARTS} restarts like these are too few"
    return f"about {restarts} restarts like these would bring it to {latency.WIDE:g}"


def late_chunks(runs: Iterable[RunRecord]) -> str:
    """How many answers' first chunks came late, and what is not claimed of them."""
    late = stream_stalls.late_answers(summaries.pooled_requests(runs))
    if not late.count:
        return f"**Late first chunks.** There are none in {late.requests} requests."
    return (
        f"**Late first chunks.** In {late.count} of {late.requests} requests the first chunks came "
        f"together, though the engine writes them a step apart; the largest share is that of {late.worst}, "
        f"{late.worst_count} of {late.worst_requests}. Their TTFT and TPOT time the stream, not the engine. "
        "Where they decide a p99 of TTFT, its point is hollow, and nothing is claimed of it."
    )
