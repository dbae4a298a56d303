"""A comparison of two selections in words, or as JSON: which is slower, by how much and by which part. And
what a gate on it found and can see: lines for a terminal, and JUnit XML for a CI system.
"""

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from specbook.analysis.comparison import CELL, Comparison, Side
from specbook.analysis.gate import SLOWDOWNS, Check
from specbook.records.run import LACKED
from specbook.report import tables
from specbook.report.text import count, percent
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import MOST_RESTARTS
from specbook.suggestions import listed

PARTS = {"length": "acceptance length", "step_s": "time of a step", "ttft_s": "time to first token"}


def page(result: Comparison, markdown: bool = False) -> str:
    """The sentence, a table of the cells (names that all share left out), and what else differs."""
    names = [name for name in CELL if name in result.cells and result.cells[name].nunique() > 1]
    if "arm" in names and not result.cells.duplicated([name for name in names if name != "draft"]).any():
        names = [name for name in names if name != "draft"]  # the arm says it
    cells = result.cells.sort_values(names, key=lambda own: own.str.replace(r"\d+", _padded, regex=True))
    rows = [*cells.to_dict("records"), dict.fromkeys(names, "all") | result.overall]
    table = pd.DataFrame([{name: row[name] for name in names} | _shown(row) for row in rows])
    table = table.loc[:, (table != "").any()]  # baselines have no acceptance length
    lines = [
        *(_side(name, own) for name, own in (("A", result.a), ("B", result.b))),
        *(
            f"{key} differs: {_cut(key, a)} in A, {_cut(key, b)} in B"
            for key, (a, b) in result.differs.items()
        ),
        *(f"left out: {count(n, 'cell')} {why}" for why, n in result.left_out.items()),
    ]
    titles = {"tokens_per_s": "tokens/s"} | PARTS
    drawn = tables.markdown(table.rename(columns=titles)) if markdown else table.to_string(index=False)
    return "\n\n".join([summary(result), drawn, "\n".join(f"- {line}" for line in lines)])


def summary(result: Comparison) -> str:
    """Whether B is slower, by how much, and by which part; what of the machine may be the cause."""
    whole, margin = result.overall, percent(result.tolerance)
    one = whole["tokens_per_s"]
    span, share = (one.span(digits=3), _share(one)) if one else ("no restart has every cell", "")
    needed = f"; {whole['needed']} restarts a side would see it" if whole["needed"] else ""
    opening = {
        "better": f"B is faster by {share}",
        "worse": f"B is slower by {share}",
        "not worse": f"B is not slower by more than {margin} (B/A {span})",
        "cannot tell": f"Whether B is slower by {margin} cannot be told (B/A {span}{needed})",
    }[whole["verdict"]]
    parts = [_moved(name, result) for name in PARTS if result.overall[name]]
    worse = int((result.cells["verdict"] == "worse").sum())
    over = f"over {count(len(result.cells), 'cell')}, {worse} of them worse, on these prompts"
    return " ".join([f"{opening}, {over}: {'; '.join(parts)}.", *_machine(result)])


def _share(ratio: Estimate) -> str:
    """`7.0 % [4.1, 9.8]` of a ratio of 0.93, or of 1.07."""
    return ratio.through(lambda value: 100 * abs(value - 1)).span(" %", 1)


def _moved(name: str, result: Comparison) -> str:
    ratio = result.overall[name]
    moved = {"below": "fell", "above": "rose"}.get(ratio.side() or "")
    if moved is None:
        return f"the {PARTS[name]} is not shown to change (B/A {ratio.span(digits=3)})"
    where = result.position if (name, moved) == ("length", "fell") else None
    return f"the {PARTS[name]} {moved} by {_share(ratio)}" + (f", most at position {where}" if where else "")


def _machine(result: Comparison) -> list[str]:
    sentences = []
    if {"host", "hardware"} & result.differs.keys():
        sentences.append("The host differs or is unknown: it may be the machine. Measure both in one round.")
    elif not result.overall["paired"]:
        sentences.append("They share no rounds, so drift in the machine's speed is in the ratio.")
    if (result.a.windows["kind"] == "imported").any():
        sentences.append(f"What is imported has {LACKED}.")
    both = {"A": result.a.windows["disturbed"], "B": result.b.windows["disturbed"]}
    busy = [f"{own.sum()} of {len(own)} windows of {name}" for name, own in both.items() if own.any()]
    if busy:
        sentences.append(f"Other programs took more than a tenth of the cores in {listed(busy)}.")
    return sentences


def _padded(digits: re.Match[str]) -> str:
    """So that batch 8 is listed before batch 32."""
    return digits[0].zfill(4)


def _cut(key: str, value: str) -> str:
    """A digest's beginning, which is enough to choose by."""
    return value[:12] if key.endswith("sha256") else value


def _shown(row: dict[str, Any]) -> dict[str, str]:
    spans = {name: row[name].span() if row[name] else "" for name in ("tokens_per_s", *PARTS)}
    needed = f" ({row['needed']} restarts)" if row["verdict"] == "cannot tell" and row["needed"] else ""
    restarts = f"{row['restarts_a']}, {row['restarts_b']} {'paired' if row['paired'] else 'unpaired'}"
    return {**spans, "restarts": restarts, "verdict": row["verdict"] + needed}


def _side(name: str, own: Side) -> str:
    facts = own.windows["facts"]
    dates, hosts = (", ".join(sorted({one[key] or "unknown" for one in facts})) for key in ("date", "host"))
    return f"{name}: {own.selection.text}: {count(len(facts), 'record')}, {dates}, host {hosts}"


def body(result: Comparison) -> dict[str, Any]:
    """The comparison as JSON; ratios are of B over A."""
    sides = {
        name: {"selection": own.selection.text, "records": list(own.windows["run_id"])}
        for name, own in (("a", result.a), ("b", result.b))
    }
    overall, *cells = (_plain(row) for row in (result.overall, *result.cells.to_dict("records")))
    rest = {key: getattr(result, key) for key in ("tolerance", "position", "differs", "left_out")}
    return {"summary": summary(result), **sides, **rest, "overall": overall, "cells": cells}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.model_dump() if isinstance(value, Estimate) else None if pd.isna(value) else value
        for key, value in row.items()
    }


def check_line(check: Check) -> str:
    """`ok tokens_per_s: all cells: not worse, B/A 0.993 [0.981, 1.005]`."""
    ratio = check.ratio.span(digits=3) if check.ratio else "not measured"
    return f"{'ok' if check.passed else 'FAILED'} {check.name}: {check.verdict}, B/A {ratio}"


def junit(checks: Sequence[Check]) -> bytes:
    """A JUnit report: a test case for each check, its verdict in the message of its failure."""
    failed = sum(not check.passed for check in checks)
    top = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        top, "testsuite", name="specbook gate", tests=str(len(checks)), failures=str(failed)
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="specbook.gate", name=check.name)
        if not check.passed:
            ElementTree.SubElement(case, "failure", message=check_line(check))
    return ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)


def planned(plan: pd.DataFrame, alarms: pd.DataFrame, wanted: float) -> str:
    """The tables of `gate.plan` and `gate.alarms`, each under its sentence."""
    counts = plan.drop(columns="slowdown").map(lambda n: n if n <= MOST_RESTARTS else f"over {MOST_RESTARTS}")
    counts.insert(0, "slowdown", plan["slowdown"].map(percent))
    shown = [f"Restarts a side that see a slowdown with a power of {percent(wanted)}:",
             counts.to_string(index=False)]  # fmt: skip
    if len(alarms):
        opening = "Called worse, of replays of one arm against itself, B slowed down:"
        shown += [opening, replays(alarms).to_string(index=False)]
    return "\n".join(shown)


def replays(alarms: pd.DataFrame) -> pd.DataFrame:
    """`gate.alarms` with a row for each kind of replay and a column for each of SLOWDOWNS."""
    shown = alarms[alarms["slowdown"].isin((0.0, *SLOWDOWNS))]
    cells = shown.assign(
        slowdown=["false alarms" if not one else f"{percent(one)} slower" for one in shown["slowdown"]],
        worse=[one.through(lambda share: 100 * share).span(" %", 0) for one in shown["estimate"]],
        counted=[one.counted for one in shown["estimate"]],
    )
    wide = cells.pivot_table("worse", ["rounds", "over", "counted"], "slowdown", aggfunc="first", sort=False)
    return wide.reset_index()
