"""The answer of the chapter on a server without speculation."""

from collections.abc import Iterable

import pandas as pd

from specbook.analysis import latency, steps, summaries
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text import ends


def answer(runs: Iterable[RunRecord]) -> str:
    """What the server gives without speculation, and how much of its steps no roofline explains."""
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
    return f"{said} (medians over domains and restarts).{_overhead(runs, mode)}"


def _overhead(runs: RunSet, mode: str) -> str:
    decode = steps.decode_steps(runs)
    decode = decode[decode["execution"] == mode]
    shares = (100 * decode["overhead_s"].astype(float) / decode["step_s"]).dropna()
    limit = "of a decode step is overhead, time beyond what the machine's memory and arithmetic need."
    return f" {ends(shares, '{:.0f}')} % {limit}" if len(shares) else ""
