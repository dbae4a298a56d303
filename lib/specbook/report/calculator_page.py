"""What the calculator's page is given: heads, machines and prices to pick from, and where it starts."""

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from specbook.analysis import acceptance, api_prices, prediction
from specbook.config import prices
from specbook.errors import RecordError
from specbook.records import published
from specbook.records.published import PublishedRow
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report import executed_pages
from specbook.report.provenance_line import credit, served
from specbook.stats import theory

POSITION = re.compile(r"acceptance_pos_(\d+)(_pct)?")
ALWAYS = ("Claude Sonnet 5", "GPT-5.4")
"""Shown beside whatever model a reader compares with."""
Entry = dict[str, Any]


def render(runs: Sequence[RunRecord]) -> str:
    """What `book/calculator.md` includes: the prices that are missing, the data, and the scripts."""
    body = json.dumps(data(runs), ensure_ascii=True).replace("</", "<\\/")
    scripts = executed_pages.scripts("calculator", "..")
    return f'{_unverified()}<script type="application/json" id="calculator-data">{body}</script>\n{scripts}\n'


def _unverified() -> str:
    rows = [api for api in prices.load().apis if not api.verified]
    names = "; ".join(f"<strong>{html.escape(api.name)}</strong> ({html.escape(api.note)})" for api in rows)
    return f"<p>Not verified, and so without a price here: {names}.</p>\n" if rows else ""


def data(runs: Sequence[RunRecord]) -> Entry:
    """All that the page's script reads: heads, machines, prices, apis, and `start`."""
    closed = RunSet.of(runs).closed
    heads, machines = measured_heads(closed), measured_machines(closed)
    listed = [
        {"kind": price.purchase, "name": f"{price.name}, ${price.usd_per_hour:g}/h", "said": _source(price),
         "usd_per_hour": price.usd_per_hour}
        for price in prices.load().machines
    ]  # fmt: skip
    return {
        "heads": heads + published_heads(published.load()), "machines": machines, "prices": listed,
        "apis": [
            {"name": api.name, "model": api.model, "always": api.name in ALWAYS, "said": _source(api),
             "input_usd": api.input_usd_per_million, "output_usd": api.output_usd_per_million}
            for api in prices.load().apis if api.verified
        ],
        "start": _start(heads, machines, listed[0]["usd_per_hour"], _input_per_output(closed)),
    }  # fmt: skip


def _source(entry: prices.Sourced) -> str:
    return f"{entry.date}, {entry.source}" + (f" ({entry.note})" if entry.note else "")


def measured_heads(runs: RunSet) -> list[Entry]:
    """Joint acceptance of each draft and domain, at its largest K and the smallest batch."""
    table = acceptance.by_domain(runs)
    table = table[
        table["load"] == min(runs, key=lambda run: run.point.load.concurrency or 0).point.load.label
    ]
    deepest = table.loc[table.groupby(["method", "domain"], sort=False)["num_speculative_tokens"].idxmax()]
    return [
        {"kind": row.kind, "name": f"{row.label} on {row.domain}",
         "said": credit(runs, row.load),
         "joint": [round(float(share), 3) for share in row.joint]}
        for row in deepest.itertuples()
    ]  # fmt: skip


def published_heads(rows: Iterable[PublishedRow]) -> list[Entry]:
    """Heads with every position published as joint: the source says so, or its length is their sum."""
    groups: dict[tuple[str, ...], list[PublishedRow]] = {}
    for row in rows:
        key = (row.target_model, row.draft, row.dataset, row.num_speculative_tokens, row.source)
        groups.setdefault(key, []).append(row)
    return [
        {"kind": "published", "name": f"{draft}, {target}" + (f" on {dataset}" if dataset != "n/s" else ""),
         "said": source, "joint": joint}
        for (target, draft, dataset, _, source), group in groups.items() if (joint := _joint(group))
    ]  # fmt: skip


def _joint(group: list[PublishedRow]) -> list[float] | None:
    shares, lengths, stated = {}, [], False
    for row in group:
        if (place := POSITION.fullmatch(row.metric)) and row.number is not None:
            shares[int(place[1])] = round(row.number / (100 if place[2] else 1), 4)
            stated |= row.notes.startswith("joint")
        elif row.metric == "acceptance_length" and row.number is not None:
            lengths.append(row.number)
    joint = [shares[place] for place in sorted(shares)]
    if not joint or sorted(shares) != list(range(len(joint))):
        return None
    length = theory.acceptance_length(joint, len(joint))
    return joint if stated or any(abs(length - one) < 0.01 for one in lengths) else None


def measured_machines(runs: RunSet) -> list[Entry]:
    """Step prices by batch of each machine and method that was measured at two K or more.

    `model` is the one that was served, `hosts` the APIs that serve the same weights. A row: `step_ms` is a
    step without speculation; its fixed part with a draft and what each draft token adds are in such steps.
    """
    target = runs[0].point.target
    model = {"model": served(target), "hosts": api_prices.hosts(target)}
    costs = prediction.step_costs(runs)
    step_ms = 1e3 * costs.groupby("concurrency")["baseline_step_s"].median()
    table = prediction.prices(costs).dropna(subset=["draft_cost"]).sort_values("concurrency")
    return [
        {"kind": runs[0].kind, "name": f"{runs[0].hardware.id}, {method}", "said": credit(runs),
         **model, "rows": [
            {"batch": float(row.concurrency), "step_ms": round(float(step_ms[row.concurrency]), 2),
             "fixed": round(float(row.fixed_cost), 3), "draft": round(max(float(row.draft_cost), 0.0), 3)}
            for row in group.itertuples()]}
        for method, group in table.groupby("method", sort=False)
    ]  # fmt: skip


def _input_per_output(runs: Iterable[RunRecord]) -> float:
    counted = [run.measurement.server for run in runs if run.measurement is not None]
    return round(sum(one.prompt_tokens for one in counted) / sum(one.generation_tokens for one in counted), 1)


def _start(heads: list[Entry], machines: list[Entry], usd_per_hour: float, input_per_output: float) -> Entry:
    """The hardest domain on the first machine, at its middle batch and the K that is best there.

    Its fields are those of `check` in book/_static/arithmetic.js: `input_per_output` is input tokens per
    output token, which only an API's bill depends on.
    """
    if not heads or not machines:
        raise RecordError(
            "the calculator starts from measured heads and prices: measure a draft at two K first"
        )
    joint = min((head["joint"] for head in heads), key=sum)
    rows = machines[0]["rows"]
    row = rows[len(rows) // 2]
    return {
        "joint": joint, "k": theory.best_k_of(joint, row["draft"], row["fixed"]),
        "rows": rows, "batch": row["batch"], "usd_per_hour": usd_per_hour, "utilisation": 0.5,
        "input_per_output": input_per_output,
    }  # fmt: skip
