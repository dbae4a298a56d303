"""The cost chapter: its tables, its answer, and what must be known of its prices."""

import pandas as pd

from specbook.analysis import token_cost
from specbook.analysis.token_cost import BASELINE, SPECULATING
from specbook.config import prices
from specbook.config.chapter import CostPlan
from specbook.report.text import interval
from specbook.stats import cost
from specbook.stats.estimate import Estimate
from specbook.suggestions import listed

ANSWERS_BY = {True: "the same model", False: "another model"}
WORDS = {BASELINE: "without speculation", SPECULATING: "with speculation"}


def usd(value: float) -> str:
    """Dollars with as many digits as a small price needs: `$17.50`, `$0.0256`."""
    return f"${value:.2f}" if value >= 1 else f"${value:.3g}"


def with_interval(bill: Estimate) -> str:
    """`$0.0256 [0.0220, 0.0299]`, or the value alone."""
    return usd(bill.value) + ("" if bill.low is None else f" [{bill.low:.3g}, {bill.high:.3g}]")


def busy(share: float) -> str:
    """`43.3 % busy`, or never."""
    return "never" if share > 1 else f"{100 * share:.3g} % busy"


def goodput(good: pd.DataFrame, plan: CostPlan) -> pd.DataFrame:
    """Table of the rate that keeps each objective, and of both bills in $ per 1M output tokens, from
    `token_cost.goodput`. `*`: a p99 that stands on too few prompts.
    """
    marks = good["enough"].map({True: "", False: " *"})
    clocks = zip(1e3 * good["ttft_p99_s"], 1e3 * good["tpot_p99_s"], marks, strict=True)
    columns = {
        "objective": good["slo"], "arm": good["label"] + ", " + good["load"],
        "by use": good["by_use"].map(with_interval),
        f"reserved, {100 * plan.utilisation:g} % busy": [usd(one.value) for one in good["by_reservation"]],
        "tokens/s": good["speed"].round().astype(int),
        "p99 TTFT, TPOT in ms": [f"{ttft:.0f}, {tpot:.1f}{mark}" for ttft, tpot, mark in clocks],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["objective", "arm"])


def purchases(plan: CostPlan, tokens_per_s: float) -> pd.DataFrame:
    """Every listed way to buy this device: the cost at this rate, and from which utilisation paying for all
    hours is cheaper than paying on demand for the busy ones.
    """
    listed = plan.listed()
    demand = min((plan.bill(one) for one in listed if one.purchase == "on demand"), default=None)
    rows = [
        {"name": one.name, "$ per hour": usd(plan.bill(one)),
         "always busy": usd(cost.usd_per_million_tokens(tokens_per_s, plan.bill(one))),
         "break-even with on demand": busy(plan.bill(one) / demand) if demand else "-", "date": str(one.date)}
        for one in listed
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("name") if rows else pd.DataFrame({"no listed price": []})


def apis(table: pd.DataFrame, own: float) -> pd.DataFrame:
    """Table of the same text's bill elsewhere, by whose model, and from which utilisation `own` is cheaper,
    from `api_prices.apis`.
    """
    columns = {
        "API": table["name"], "answers by": table["same_model"].map(ANSWERS_BY),
        "$ per 1M": table["usd_per_million"].map(usd),
        "break-even utilisation": (own / table["usd_per_million"]).map(busy),
        "API tokens per token of this model": [
            f"{row.tokens_per_own:.2f} ({row.counted_by})" for row in table.itertuples()
        ],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index("API")


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
