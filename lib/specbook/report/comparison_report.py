"""A comparison of two selections whole, for a terminal: as Markdown, or as JSON."""

import re
from typing import Any

import pandas as pd

from specbook.analysis.comparison import Comparison
from specbook.analysis.sides import CELL, Side
from specbook.report import tables
from specbook.report.text import comparison_text, count
from specbook.stats.estimate import Estimate


def page(result: Comparison, markdown: bool = False) -> str:
    """The sentence, a table of the cells (names that all share left out), and what else differs."""
    names = [name for name in CELL if name in result.cells and result.cells[name].nunique() > 1]
    if "arm" in names and not result.cells.duplicated([name for name in names if name != "draft"]).any():
        names = [name for name in names if name != "draft"]  # the arm says it
    cells = result.cells.sort_values(names, key=lambda own: own.str.replace(r"\d+", _padded, regex=True))
    rows = [*cells.to_dict("records"), dict.fromkeys(names, "all") | result.overall]
    table = pd.DataFrame([{name: row[name] for name in names} | _shown(row) for row in rows])
    lines = [
        *(_side(name, own) for name, own in (("A", result.a), ("B", result.b))),
        *(
            f"{key} differs: {_cut(key, a)} in A, {_cut(key, b)} in B"
            for key, (a, b) in result.differs.items()
        ),
        *(f"left out: {count(n, 'cell')} {why}" for why, n in result.left_out.items()),
    ]
    drawn = tables.markdown(table) if markdown else table.to_string(index=False)
    return "\n\n".join([comparison_text.summary(result), drawn, "\n".join(f"- {line}" for line in lines)])


def _padded(digits: re.Match[str]) -> str:
    """So that batch 8 is listed before batch 32."""
    return digits[0].zfill(4)


def _cut(key: str, value: str) -> str:
    """A digest's beginning, which is enough to choose by."""
    return value[:12] if key.endswith("sha256") else value


def _shown(row: dict[str, Any]) -> dict[str, str]:
    spans = {name: row[name].span() if row[name] else "" for name in ("tokens_per_s", *comparison_text.PARTS)}
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
    rows = [_plain(row) for row in (result.overall, *result.cells.to_dict("records"))]
    rest = {key: getattr(result, key) for key in ("tolerance", "position", "differs", "left_out")}
    return {
        "summary": comparison_text.summary(result),
        **sides,
        **rest,
        "overall": rows[0],
        "cells": rows[1:],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.model_dump() if isinstance(value, Estimate) else None if pd.isna(value) else value
        for key, value in row.items()
    }
