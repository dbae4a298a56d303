"""What the figures of a server without speculation show, in words."""

import numpy as np
import pandas as pd

from specbook.report.text.phrases import count, listed, milliseconds, percent

KEEPS_UP = 0.95
"""Share of the arrivals that a server which keeps up has served by the end of a window."""
QUEUE = 0.1
"""A mean wait of so much of the median answer is a queue: as `arrivals.saturation` has it."""


def scaling(table: pd.DataFrame) -> str:
    """Sentences on what the largest batch brings, and what compiling does, from `summaries.throughput`."""
    speeds = _geometric(table).unstack().dropna()  # a row per execution mode, a column per batch
    if speeds.empty:
        return "No execution mode was measured at every batch, so batches are not compared."
    first, last = speeds.columns[0], speeds.columns[-1]
    if first == last:
        told = [f"Only batch {first:g} was measured, so nothing is said of other batches."]
    else:
        each = (f"{row[last] / row[first]:.1f} ({name})" for name, row in speeds.iterrows())
        told = [f"From batch {first:g} to batch {last:g} tokens/s are multiplied by {listed(each)}."]
    if len(speeds) < 2:
        return " ".join([*told, f"Only the {speeds.index[0]} mode was measured."])
    fast, slow = speeds[first].idxmax(), speeds[first].idxmin()
    ratio = speeds.loc[fast] / speeds.loc[slow]
    each = (f"{value:.2f} at batch {batch:g}" for batch, value in ratio.items())
    return " ".join([*told, f"The {fast} mode is so many times as fast as the {slow} one: {listed(each)}."])


def _geometric(table: pd.DataFrame) -> pd.Series:
    speeds = np.log(table["output_tokens_per_s"].astype(float))
    return np.exp(speeds.groupby([table["execution"], table["concurrency"]]).mean())


def clocks(table: pd.DataFrame) -> str:
    """Sentence on the median latencies at the smallest and the largest batch.

    Made from `latency.table` by concurrency and execution.
    """
    table = table[(table["q"] == 0.5) & (table["execution"] == table["execution"].iloc[0])]
    first, last = table["concurrency"].min(), table["concurrency"].max()
    names = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}
    wide = table.pivot(index="metric", columns="concurrency", values="value").reindex(names).dropna()
    mode = table["execution"].iloc[0]
    if first == last:
        each = (f"{names[metric]} {milliseconds(row[first])}" for metric, row in wide.iterrows())
        return f"The medians at batch {first:g} ({mode}): {listed(each)}."
    each = (
        f"{names[metric]} from {milliseconds(row[first])} to {milliseconds(row[last])}"
        for metric, row in wide.iterrows()
    )
    return f"From batch {first:g} to batch {last:g} the medians go ({mode}): {listed(each)}."


def steps(table: pd.DataFrame) -> str:
    """Sentences on the step at each batch, and how much of it is overhead, from `steps.decode_steps`."""
    told = []
    for mode, cell in table.groupby("execution", sort=False):
        cell = cell.sort_values("concurrency")
        each = (
            f"{milliseconds(row.step_s)} at batch {row.concurrency}{_overhead(row)}"
            for row in cell.itertuples()
        )
        told.append(f"A step takes {listed(each)} ({mode}).")
        first, last = cell.iloc[0], cell.iloc[-1]
        if len(cell) > 1:
            told.append(
                f"{last['concurrency'] / first['concurrency']:.3g} times the sequences make it "
                f"{last['step_s'] / first['step_s']:.2f} times as long."
            )
    return " ".join(told)


def _overhead(row: object) -> str:
    share = row.overhead_s / row.step_s if pd.notna(row.overhead_s) else None  # type: ignore[attr-defined]
    return " (not split)" if share is None else f" ({percent(share)} overhead)"


def arrivals(table: pd.DataFrame) -> str:
    """Sentences on where less is served than arrives, and where there is a queue.

    Made from `arrivals.poisson`, one arm.
    """
    if table.empty:
        return "No Poisson arrivals are in this plan."
    behind = table["served_per_s"] < KEEPS_UP * table["arrived_per_s"]
    waits = table["queue_wait_s"] > QUEUE * table["e2e_p50_s"]
    told = [
        f"In {behind.sum()} of {len(table)} combinations of domain and rate less than {percent(KEEPS_UP)} of "
        f"what arrived was served{_places(table[behind])}.",
        f"Requests queue in {waits.sum()}{_places(table[waits], waits=True)}.",
    ]
    if (behind & ~waits).any():
        told.append(
            f"So in {count(int((behind & ~waits).sum()), 'case')} the curve leaves the line without a queue"
            f"{_places(table[behind & ~waits])}: what was served is counted until the last answer ends, so "
            "one long last answer lowers the rate."
        )
    return " ".join(told)


def _places(table: pd.DataFrame, waits: bool = False) -> str:
    each = [
        f"{row.domain} at {row.rate_per_s:g}/s"
        + (f" (mean wait {milliseconds(row.queue_wait_s)})" if waits else "")
        for row in table.itertuples()
    ]
    return f": {listed(each)}" if each else ""
