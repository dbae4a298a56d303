"""The cost chapter's answer, and what must be known of its prices."""

import pandas as pd

from specbook.analysis import token_cost
from specbook.analysis.token_cost import BASELINE, SPECULATING
from specbook.config import prices
from specbook.config.chapter import CostPlan
from specbook.report.cost_tables import usd, with_interval
from specbook.report.text import interval
from specbook.suggestions import listed

WORDS = {BASELINE: "without speculation", SPECULATING: "with speculation"}


def price(plan: CostPlan) -> str:
    """Which price was taken, its source and its date."""
    if plan.usd_per_hour is not None or plan.price is None:
        return f"Price: {usd(plan.hourly())} an hour, the reader's own."
    one = prices.machine(plan.price)
    note = f" ({one.note})" if one.note else ""
    times = one.machines_for(plan.devices)
    often = f", {times} times for {plan.devices} devices" if times > 1 else ""
    return f"Price: **{one.name}**, {usd(one.usd_per_hour)} an hour{often}{note}; {one.source}, {one.date}."


def answer(good: pd.DataFrame, plan: CostPlan) -> str:
    """Answer on the cost under each objective, with and without speculation, from `token_cost.goodput`."""
    lines = [
        f"- *{name}*, p99 TTFT within {1e3 * slo.ttft_s:.0f} ms and p99 TPOT within {1e3 * slo.tpot_s:.0f} "
        f"ms: {_under(good[good['slo'] == name])}"
        for name, slo in plan.slos.items()
    ]
    return "**Answer.** A million output tokens cost, under each objective:\n\n" + "\n".join(lines)


def _under(cell: pd.DataFrame) -> str:
    if cell.empty:
        return "no batch that was measured keeps that."
    bills = listed(
        f"**{with_interval(row.by_use)}** {WORDS[row.kind]} ({row.load}, {row.output.value:.0f} tokens/s)"
        for row in cell.itertuples()
    )
    few = sorted(set(cell["load"][~cell["enough"].astype(bool)]))
    doubt = f" The p99 of {listed(few)} is uncertain: too few prompts, or late first chunks." if few else ""
    return f"{bills}. {_verdict(cell)}{doubt}"


def _verdict(cell: pd.DataFrame) -> str:
    """`There speculation makes tokens 11 % cheaper (a ratio of 0.89, 95 % interval 0.81 to 0.98, ...).`"""
    for lacking in WORDS.keys() - set(cell["kind"]):
        return f"No batch {WORDS[lacking]} keeps that."
    ratio = token_cost.dearer(cell)
    if ratio is None:
        return "The two share no restart, so their ratio is not known."
    change = f"{100 * abs(1 - ratio.value):.0f} % {'cheaper' if ratio.value < 1 else 'more expensive'}"
    tie = "; the interval includes 1, so this is a tie" if ratio.side() == "within" else ""
    return f"There speculation makes tokens {change} (a ratio of {ratio.value:.2f}, {interval(ratio)}{tie})."
