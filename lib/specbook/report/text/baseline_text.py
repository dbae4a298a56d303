"""The chapter on a server without speculation in words, and late first chunks in any chapter's."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import latency, stream_stalls, summaries, throughput
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text import count, milliseconds, percent
from specbook.suggestions import listed

KEEPS_UP = 0.95
"""Share of the arrivals that a server which keeps up has served by the end of a window."""
QUEUE = 0.1
"""A mean wait of so much of the median answer is a queue: as `arrivals.saturation` has it."""


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
    opening = (
        f"**Answer.** Without speculation this server ({mode}) writes **{slow:.0f} tokens/s** for "
        f"{_readers(first)}, {_tpot_ms(runs, mode, first):.1f} ms a token"
    )
    if first == last or pd.isna(fast):
        return f"{opening} (medians over domains and restarts)."
    return (
        f"{opening}, and **{fast:.0f} tokens/s** for {last:g} at once: {last / first:g} times the requests "
        f"bring {fast / slow:.1f} times the tokens (medians over domains and restarts)."
    )


def _readers(batch: float) -> str:
    return "one request at a time" if batch == 1 else f"{batch:g} requests at once"


def _tpot_ms(runs: list[RunRecord], mode: str, batch: float) -> float:
    table = latency.table(runs, (0.5,), by=("concurrency", "execution"))
    chosen = table[
        (table["metric"] == "tpot_s") & (table["execution"] == mode) & (table["concurrency"] == batch)
    ]
    return 1e3 * float(chosen["value"].iloc[0])


def scaling(table: pd.DataFrame) -> str:
    """Sentences on what the largest batch brings, and what compiling does, from `summaries.throughput`."""
    speeds = throughput.by_mode(table)
    if speeds.empty:
        return "No execution mode was measured at every batch, so batches are not compared."
    first, last = speeds.columns[0], speeds.columns[-1]
    if first == last:
        sentences = [f"Only batch {first:g} was measured, so nothing is said of other batches."]
    else:
        each = (f"{row[last] / row[first]:.1f} ({name})" for name, row in speeds.iterrows())
        sentences = [f"From batch {first:g} to batch {last:g} tokens/s are multiplied by {listed(each)}."]
    if len(speeds) < 2:
        return " ".join([*sentences, f"Only the {speeds.index[0]} mode was measured."])
    fast, slow = speeds[first].idxmax(), speeds[first].idxmin()
    ratio = speeds.loc[fast] / speeds.loc[slow]
    each = (f"{value:.2f} at batch {batch:g}" for batch, value in ratio.items())
    return " ".join(
        [*sentences, f"The {fast} mode is so many times as fast as the {slow} one: {listed(each)}."]
    )


def queueing(table: pd.DataFrame) -> str:
    """Sentences on where less is served than arrives, and where there is a queue.

    Made from `arrivals.poisson`, one arm.
    """
    if table.empty:
        return "No Poisson arrivals are in this plan."
    behind = table["served_per_s"] < KEEPS_UP * table["arrived_per_s"]
    waits = table["queue_wait_s"] > QUEUE * table["e2e_p50_s"]
    sentences = [
        f"In {behind.sum()} of {len(table)} combinations of domain and rate less than {percent(KEEPS_UP)} of "
        f"what arrived was served{_places(table[behind])}.",
        f"Requests queue in {waits.sum()}{_places(table[waits], waits=True)}.",
    ]
    if (behind & ~waits).any():
        sentences.append(
            f"So in {count(int((behind & ~waits).sum()), 'case')} the curve leaves the line without a queue"
            f"{_places(table[behind & ~waits])}: what was served is counted until the last answer ends, so "
            "one long last answer lowers the rate."
        )
    return " ".join(sentences)


def _places(table: pd.DataFrame, waits: bool = False) -> str:
    each = [
        f"{row.domain} at {row.rate_per_s:g}/s"
        + (f" (mean wait {milliseconds(row.queue_wait_s)})" if waits else "")
        for row in table.itertuples()
    ]
    return f": {listed(each)}" if each else ""


def late_chunks(runs: Iterable[RunRecord]) -> str:
    """How many answers' first chunks came late, and what is known of the cause."""
    late = stream_stalls.late_answers(summaries.pooled_requests(runs))
    if not late.count:
        return f"**Late first chunks.** There are none in {late.requests} requests."
    return (
        f"**Late first chunks.** In {late.count} of {late.requests} requests the first chunks came "
        f"together, though the engine writes them a step apart; in {late.whole} of these the whole answer "
        f"came at once. Most, {late.worst_count} of {late.worst_requests}, are of {late.worst}. "
        f"{_cause(late.pace)} Their TTFT and TPOT time the stream, not the engine; their E2E is what a "
        "reader waited. Where they decide a p99 of TTFT, its point is hollow, and nothing is claimed of it."
    )


def _cause(pace: float) -> str:
    if np.isnan(pace):
        return "The cause is unknown."
    opening = f"Per token they took {pace:.2f} times as long as the others of their windows (median, E2E), so"
    if pace < stream_stalls.AS_USUAL:
        return f"{opening} the engine wrote as ever, and the chunks waited on their way; why is unknown."
    return f"{opening} something held up the engine, or the whole machine; what, is unknown."
