"""What the cost chapter's figures show, in words."""

import pandas as pd

from specbook.config.pricing import CostPlan
from specbook.report.cost_tables import usd
from specbook.report.text.phrases import ends


def batching(best: pd.DataFrame) -> str:
    """Sentences on what the largest batch does to the cost, from `bills` of `spending.best_arms`."""
    told = []
    for kind, cell in best.sort_values("concurrency").groupby("kind", sort=False):
        first, last = cell.iloc[0], cell.iloc[-1]
        start, end = first["by_use"].value, last["by_use"].value
        if len(cell) > 1:
            told.append(
                f"With {kind} a million output tokens go from {usd(start)} at {first['load']} to "
                f"{usd(end)} at {last['load']}: divided by {start / end:.1f}."
            )
    return " ".join(told) or "Only one batch was measured, so nothing is said of other batches."


def reading(table: pd.DataFrame) -> str:
    """Sentence on what a prompt's token costs beside an answer's, from `spending.splits`."""
    if table.empty:
        return "In these records TTFT does not grow with the prompt, so what reading costs is unknown."
    shares = table["input_usd_per_million"] / table["output_usd_per_million"]
    return f"A token that is read costs {ends(list(shares))} of one that is written, by load and arm."


def case(chosen: pd.Series, plan: CostPlan) -> str:
    """Sentence on which rate stands for this server below, from `spending.base_case`."""
    slo = next(iter(plan.slos.values()))
    kept = chosen["ttft_p99_s"] <= slo.ttft_s and chosen["tpot_p99_s"] <= slo.tpot_s
    which = "the fastest that keeps it" if kept else "the fastest of all, since none keeps it"
    return f"The rate below is {which}: {chosen['arm']} at {chosen['load']}, {chosen['speed']:.0f} tokens/s."
