"""The cost chapter in tables and sentences, from `analysis.token_cost`, `api_prices` and `sensitivity`."""

from collections.abc import Mapping

import pandas as pd

from specbook.analysis import api_prices, token_cost
from specbook.analysis.intervals import side
from specbook.analysis.token_cost import BASELINE, SPECULATING
from specbook.config import prices
from specbook.config.chapter import CostPlan
from specbook.report.text import answers_text, count
from specbook.stats import cost
from specbook.stats.estimate import Estimate

ANSWERS_BY = {True: "the same model", False: "another model"}


def usd(value: float) -> str:
    """Dollars with as many digits as a small price needs: `$17.50`, `$0.0256`."""
    return f"${value:.2f}" if value >= 1 else f"${value:.3g}"


def with_interval(bill: Estimate) -> str:
    """`$0.0256 [0.0220, 0.0299]`, or the value alone."""
    return usd(bill.value) + ("" if bill.low is None else f" [{bill.low:.3g}, {bill.high:.3g}]")


def price(plan: CostPlan) -> str:
    """Which price was taken, its source and its date."""
    if plan.usd_per_hour is not None or plan.price is None:
        return f"Price: {usd(plan.hourly())} an hour, the reader's own."
    listed = prices.machine(plan.price)
    note = f" ({listed.note})" if listed.note else ""
    times = listed.machines_for(plan.devices)
    often = f", {times} times for {plan.devices} devices" if times > 1 else ""
    return (
        f"Price: **{listed.name}**, {usd(listed.usd_per_hour)} an hour{often}{note}; {listed.source}, "
        f"{listed.date}."
    )


def answer(good: pd.DataFrame, plan: CostPlan) -> str:
    """Answer on the cost under each objective, with and without speculation, from `token_cost.goodput`."""
    lines = [f"- {_under(name, good[good['slo'] == name], plan)}" for name in plan.slos]
    chosen = {
        tuple(good.loc[good["slo"] == name, ["load", "arm"]].itertuples(index=False)) for name in plan.slos
    }
    opening = " It depends on how long a reader may wait." if len(chosen) > 1 else ""
    return f"**Answer.**{opening}\n\n" + "\n".join(lines)


def _under(name: str, cell: pd.DataFrame, plan: CostPlan) -> str:
    slo = plan.slos[name]
    head = (
        f"*{name}*, p99 TTFT within {1e3 * slo.ttft_s:.0f} ms and p99 TPOT within {1e3 * slo.tpot_s:.0f} ms: "
    )
    if cell.empty:
        return f"{head}no batch that was measured keeps that."
    head += "a million output tokens costs "
    rows = {row.kind: row for row in cell.itertuples()}
    few = sorted({row.load for row in rows.values() if not row.enough})
    doubt = (
        f" Of {' and '.join(few)} the p99 stands on too few prompts, or on late first chunks, to be sure of."
        if few
        else ""
    )
    bills = [
        f"**{with_interval(rows[kind].by_use)}** {words} "
        f"({rows[kind].load}, {rows[kind].output.value:.0f} tokens/s)"
        for kind, words in ((BASELINE, "without speculation"), (SPECULATING, "with it"))
        if kind in rows
    ]
    if len(bills) < 2:
        (lacks,) = {BASELINE, SPECULATING} - set(rows)
        return f"{head}{bills[0]}; no batch with {lacks} keeps that.{doubt}"
    return f"{head}{bills[0]} and {bills[1]}. {_verdict(token_cost.dearer(cell))}{doubt}"


def _verdict(ratio: Estimate | None) -> str:
    """`There speculation makes tokens 11 % cheaper (95 % interval of the ratio 0.81 to 0.98, ...).`"""
    if ratio is None:
        return "The two share no restart, so their ratio is not known."
    change = f"{100 * abs(1 - ratio.value):.0f} % {'cheaper' if ratio.value < 1 else 'dearer'}"
    if ratio.low is None or ratio.high is None:
        return f"There speculation makes tokens {change} (no interval, n={ratio.counted})."
    tie = "; it holds 1, so this is a tie" if side(ratio) == "within" else ""
    return (
        f"There speculation makes tokens {change} (95 % interval of the ratio {ratio.low:.2f} to "
        f"{ratio.high:.2f}, n={ratio.counted}{tie})."
    )


def goodput(good: pd.DataFrame, plan: CostPlan) -> pd.DataFrame:
    """Table of the rate that keeps each objective, and of both bills in $ per 1M output tokens.

    Made from `token_cost.goodput`.
    """
    clocks = zip(1e3 * good["ttft_p99_s"], 1e3 * good["tpot_p99_s"], _mark(good), strict=True)
    columns = {
        "objective": good["slo"], "arm": good["label"] + ", " + good["load"],
        "by use": good["by_use"].map(with_interval),
        f"reserved, {100 * plan.utilisation:g} % busy": [usd(one.value) for one in good["by_reservation"]],
        "tokens/s": good["speed"].round().astype(int),
        "p99 TTFT, TPOT in ms": [f"{ttft:.0f}, {tpot:.1f}{mark}" for ttft, tpot, mark in clocks],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["objective", "arm"])


def splits(table: pd.DataFrame) -> pd.DataFrame:
    """Table of dollars per million tokens read and written, which pay for the busy time.

    Made from `token_cost.splits`.
    """
    columns = {
        "load": table["load"], "arm": table["label"],
        "input, $ per 1M": table["input_usd_per_million"].map(usd),
        "output, $ per 1M": table["output_usd_per_million"].map(usd),
        "time spent reading": table["input_share"].map("{:.0%}".format),
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "arm"])


def losses(table: pd.DataFrame) -> str:
    """Sentences on where speculation costs, or may, from `token_cost.savings`."""
    if table.empty:
        return answers_text.NO_PAIR
    if table["saved_high"].isna().any():
        return (
            f"Speculation came out as a cost in {int((table['saved'] < 0).sum())} of "
            f"{count(len(table), 'cell')} at its best K, measured too seldom for an interval."
        )
    sure = table[table["saved_high"] < 0]
    maybe = table[(table["saved_low"] < 0) & ~table.index.isin(sure.index)]
    places = ", ".join(f"{row.domain} at {row.load}" for row in maybe.itertuples())
    lines = [
        f"Speculation is a cost, beyond its interval, in {len(sure)} of {count(len(table), 'cell')} at its "
        "best K."
    ]
    if len(maybe):
        lines.append(f"In {len(maybe)} more the interval reaches below zero: {places}.")
    return " ".join(lines)


def purchases(plan: CostPlan, tokens_per_s: float) -> pd.DataFrame:
    """Every listed way to buy this device: the cost at this rate, and from which utilisation paying for all
    hours is cheaper than paying on demand for the busy ones.
    """
    listed = plan.listed()
    demand = min((plan.bill(one) for one in listed if one.purchase == "on demand"), default=None)
    rows = [
        {"name": one.name, "$ per hour": usd(plan.bill(one)),
         "always busy": usd(cost.usd_per_million_tokens(tokens_per_s, plan.bill(one))),
         "worth keeping from": _busy(plan.bill(one) / demand) if demand else "-", "date": str(one.date)}
        for one in listed
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("name") if rows else pd.DataFrame({"no listed price": []})


def apis(table: pd.DataFrame, own: float) -> pd.DataFrame:
    """Table of the same text's bill elsewhere, by whose model, and from which utilisation `own` is cheaper.

    Made from `api_prices.apis`.
    """
    columns = {
        "API": table["name"], "answers by": table["same_model"].map(ANSWERS_BY),
        "$ per 1M": table["usd_per_million"].map(usd),
        "cheaper here from": (own / table["usd_per_million"]).map(_busy),
        "its tokens per ours": [
            f"{row.tokens_per_own:.2f} ({row.counted_by})" for row in table.itertuples()
        ],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index("API")


def sources(table: pd.DataFrame) -> str:
    """Sentences that give the day and the source of each list price, from `api_prices.apis`."""
    days = table.groupby(["date", "source"], sort=False)["name"].agg(", ".join)
    return " ".join(f"{names}: list prices of {day} ({source})." for (day, source), names in days.items())


def guessed(table: pd.DataFrame, counted: Mapping[str, float]) -> str:
    """Sentence on how much of the prompts' length is an estimate.

    Empty where none is, or no API's tokens are counted by characters. Made from `api_prices.apis` and
    `token_cost.characters`.
    """
    share = counted["guessed_characters"] / (counted["input_characters"] or 1)
    if not share or (table["counted_by"] == api_prices.OWN).all():
        return ""
    return (
        f"Of the prompts' characters {100 * share:.3g} % are an estimate: their prompts are in the files no "
        "more, and count as many characters a token as the answers of the same window have."
    )


def unverified() -> str:
    """The names for which no price could be found, and what was looked through."""
    rows = [api for api in prices.load().apis if not api.verified]
    return " ".join(
        f"**{api.name}** could not be verified: {api.note} ({api.source}, {api.date})." for api in rows
    )


def rented(table: pd.DataFrame) -> pd.DataFrame:
    """Table of published rates priced by the hour, beside a host of the model, from `api_prices.rented`."""
    columns = {
        "model": table["model"] + " on " + table["hardware"], "draft": table["draft"],
        "batch": table["batch"],
        "tokens/s": table["tokens_per_s"].map("{:.0f}".format),
        "$ per 1M": table["usd_per_million"].map(usd),
        "host": table["api_usd_per_million"].map(usd),
        "pays from": table["break_even_utilisation"].map(_busy),
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["model", "draft"])


def keeps(table: pd.DataFrame, plan: CostPlan) -> Mapping[tuple[str, str], bool]:
    """Whether each load and arm of `token_cost.rates` keeps the first, strictest objective."""
    slo = next(iter(plan.slos.values()))
    held = (table["ttft_p99_s"] <= slo.ttft_s) & (table["tpot_p99_s"] <= slo.tpot_s)
    return dict(zip(zip(table["load"], table["arm"], strict=True), held, strict=True))


def _mark(table: pd.DataFrame) -> pd.Series:
    """An asterisk where a p99 stands on too few prompts."""
    return table["enough"].map({True: "", False: " *"})


def _busy(share: float) -> str:
    return "never" if share > 1 else f"{100 * share:.3g} % busy"


def case(chosen: pd.Series, plan: CostPlan) -> str:
    """Sentence on which rate stands for this server below, from `token_cost.base_case`."""
    slo = next(iter(plan.slos.values()))
    kept = chosen["ttft_p99_s"] <= slo.ttft_s and chosen["tpot_p99_s"] <= slo.tpot_s
    fastest = "that keeps the strictest objective" if kept else "of all, since none keeps it"
    named = f"{chosen['arm']} at {chosen['load']}, {chosen['speed']:.0f} tokens/s"
    return f"The rate below is the fastest {fastest}: {named}."
