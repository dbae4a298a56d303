"""Method by engine: what was measured here, what others published, and neither: for `book/engines.md`."""

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from specbook import engine, records
from specbook.config import methods
from specbook.engine.base import Engine
from specbook.records import published
from specbook.records.published import PublishedRow
from specbook.records.run import RunRecord
from specbook.report.published_page import short_source
from specbook.report.tables import markdown
from specbook.report.text import count, ends

BASELINE = "no speculation"
DRAFTS = {
    "P-EAGLE": r"p-?eagle", "EAGLE-3": r"eagle-?3", "EAGLE": r"eagle", "suffix": r"suffix",
    "ngram": r"n-?gram", "draft model": r"draft model",
}  # fmt: skip
"""How sources name a draft by method, the most special first; other names say nothing of the method."""
SPEEDUPS = "speedup_"
"""How metrics of published rows begin that compare two arms."""
NONE = "None."


def render() -> str:
    """`sections` of what was measured here, and of all that is published."""
    runs = [run for run in records.load() if run.kind == "measured" and run.status == "ok"]
    return sections(runs, published.load())


def sections(runs: Sequence[RunRecord], rows: Sequence[PublishedRow]) -> str:
    """The matrix, whose numbers it counts, and the published speed-ups."""
    days = sorted(run.started_at[:10] for run in runs)
    whose = f"Windows of {count(len({run.hardware.id for run in runs}), 'machine')}, " if runs else NONE
    whose += f"measured from {days[0]} to {days[-1]}." if days else ""
    speedups = published_speedups(rows)
    reported = NONE if speedups.empty else markdown(speedups)
    parts = ["# Measured, published, or not", markdown(matrix(runs, rows)), whose, "# Published", reported]
    return "\n\n".join(parts) + "\n"


def matrix(runs: Sequence[RunRecord], rows: Sequence[PublishedRow]) -> pd.DataFrame:
    """A row a method and a column an engine: windows measured here, rows published by others, or neither."""
    measured = Counter((run.point.target.engine, _title(run)) for run in runs)
    reported = Counter(
        (one.name, method_of(row)) for row in rows for one in engine.known() if _is_of(row, one)
    )
    known = [(BASELINE, None), *((method.title, method) for method in methods.known())]

    def cell(one: Engine, title: str, method: type[methods.Method] | None) -> str:
        if method is not None and not one.knows(method):
            return "not offered"
        found = {"measured": measured[one.name, title], "published": reported[one.name, title]}
        return ", ".join(f"{word} ({n:,})" for word, n in found.items() if n) or "not measured"

    return pd.DataFrame(
        [
            {"method": title} | {one.title: cell(one, title, method) for one in engine.known()}
            for title, method in known
        ]
    )


def published_speedups(rows: Sequence[PublishedRow]) -> pd.DataFrame:
    """A row an engine, method, metric and source: how many numbers, between which, and the source's date."""
    groups: dict[tuple[str, ...], list[PublishedRow]] = {}
    for row in rows:
        method = method_of(row)
        for one in engine.known():
            if row.metric.startswith(SPEEDUPS) and method and _is_of(row, one):
                groups.setdefault((one.title, method, row.metric, row.source), []).append(row)
    return pd.DataFrame([_published(*key, group) for key, group in groups.items()])


def _published(
    title: str, method: str, metric: str, source: str, rows: Sequence[PublishedRow]
) -> dict[str, str]:
    values = [row.number for row in rows if row.number is not None]
    address = rows[0].address
    return {
        "engine": title, "method": method, "metric": metric.replace("_", " "), "numbers": str(len(rows)),
        "values": ends(values, "{:g}") if values else rows[0].value,
        "date": str(rows[0].date or "not stated"),
        "source": f"[{short_source(rows[0])}]({address})" if address else source,
    }  # fmt: skip


def method_of(row: PublishedRow) -> str | None:
    """Title of the method that a published row's draft is of; None where its name does not tell."""
    if row.draft == "none":
        return BASELINE
    return next((title for title, word in DRAFTS.items() if re.search(word, row.draft.lower())), None)


def _title(run: RunRecord) -> str:
    speculation = run.point.speculation
    return speculation.drafting.title if speculation else BASELINE


def _is_of(row: PublishedRow, one: Engine) -> bool:
    """Whether the row's system is this engine, of any release: `vLLM 0.13.0` is, `vLLM-Neuron` is not."""
    own = one.title.rpartition(" over ")[2]
    return re.match(rf"{re.escape(own)}($|[ +/])", row.system) is not None
