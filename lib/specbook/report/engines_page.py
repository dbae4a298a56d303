"""Method by engine, measured here, published or neither, and one model on two engines in the same rounds: for
`book/engines.md`, and a sentence of the front page.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from specbook import engine, records
from specbook.analysis import engines
from specbook.config import methods
from specbook.config.schema import Target
from specbook.engine.base import Engine
from specbook.records import published
from specbook.records.published import PublishedRow
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.provenance_line import credit, served_by, window_warnings
from specbook.report.published_page import short_source
from specbook.report.tables import markdown, span
from specbook.report.text import count, ends
from specbook.suggestions import listed

BASELINE = "no speculation"
DRAFTS = {
    "P-EAGLE": r"p-?eagle", "EAGLE-3": r"eagle-?3", "EAGLE": r"eagle", "suffix": r"suffix",
    "ngram": r"n-?gram", "draft model": r"draft model",
}  # fmt: skip
"""How sources name a draft by method, the most special first; other names say nothing of the method."""
SPEEDUPS = "speedup_"
"""How metrics of published rows begin that compare two arms."""
NONE = "None."
PLAN, HARDWARE = "appendix_engines", "cpu"
NOTHING = f"**Not measured yet.** `specbook run {PLAN}` measures it, in one to two hours on two cores."
SPEED = {"above": ", faster", "below": ", slower", "within": ", no difference shown", None: ""}
GAIN = {"above": "more", "below": "less", "within": "no difference shown", None: ""}
Names = Mapping[str, str]
"""Title by the target's name, in the plan's order."""


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
    measured = Counter((run.point.target.engine, _method_title(run)) for run in runs)
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
    shown = []
    for (title, method, metric, source), group in groups.items():
        first, values = group[0], [row.number for row in group if row.number is not None]
        shown.append(
            {"engine": title, "method": method, "metric": metric.replace("_", " "),
             "numbers": str(len(group)), "values": ends(values, "{:g}") if values else first.value,
             "date": str(first.date or "not stated"),
             "source": f"[{short_source(first)}]({first.address})" if first.address else source}
        )  # fmt: skip
    return pd.DataFrame(shown)


def method_of(row: PublishedRow) -> str | None:
    """Title of the method that a published row's draft is of; None where its name does not tell."""
    if row.draft == "none":
        return BASELINE
    return next((title for title, word in DRAFTS.items() if re.search(word, row.draft.lower())), None)


def _method_title(run: RunRecord) -> str:
    speculation = run.point.speculation
    return speculation.drafting.title if speculation else BASELINE


def _is_of(row: PublishedRow, one: Engine) -> bool:
    """Whether the row's system is this engine, of any release: `vLLM 0.13.0` is, `vLLM-Neuron` is not."""
    own = one.title.rpartition(" over ")[2]
    return re.match(rf"{re.escape(own)}($|[ +/])", row.system) is not None


def side_by_side() -> str:
    """One model on two engines: speeds, gains, steps, answers that are the same; whose numbers they are."""
    runs = records.of_chapter(PLAN, HARDWARE)
    if not runs:
        return f"{NOTHING}\n"
    targets, speeds = _targets(runs), engines.by_target(runs)
    names = {name: _engine_title(target) for name, target in targets.items()}
    tables = [
        _speeds(speeds, names), _gains(runs, names),
        _steps(engines.steps(runs), names), _answers(engines.agreement(runs), names),
    ]  # fmt: skip
    shown = [markdown(table) for table in tables if len(table)]  # a campaign may have been broken off
    said = _baselines(speeds, targets, "above", "below")
    return "\n\n".join([*said, *shown, credit(runs, served_by(runs)), *window_warnings(runs)]) + "\n"


def faster_baseline() -> list[str]:
    """A sentence for the front page where another engine than the first has the faster baseline, weights and
    precision being the same; none where that is not shown.
    """
    runs = records.of_chapter(PLAN, HARDWARE)
    said = _baselines(engines.by_target(runs), _targets(runs), "above") if runs else []
    why = "If an engine is slow without drafts, part of its speed-up only makes up for that."
    return [f"{why} {one}" for one in said]


def _baselines(speeds: pd.DataFrame, targets: Mapping[str, Target], *sides: str) -> list[str]:
    """A sentence for each engine with the first one's weights and precision: its speed without speculation
    over the first one's, at the loads where it lies on these sides of 1.
    """
    first = next(iter(targets.values()))
    said: dict[str, list[str]] = {}
    for row in speeds.itertuples():
        one = targets[row.target]
        alike = (one.dtype, one.quantization) == (first.dtype, first.quantization)
        if alike and row.against is not None and row.against.side() in sides:
            said.setdefault(_engine_title(one), []).append(f"{row.against.span('×')} ({row.load})")
    return [
        f"Without speculation {name} serves {first.name} at {listed(each)} the speed of "
        f"{_engine_title(first)}."
        for name, each in said.items()
    ]


def _engine_title(target: Target) -> str:
    """`llama.cpp (Q4_1)`."""
    return f"{engine.for_target(target).title} ({target.quantization or target.dtype})"


def _targets(runs: RunSet) -> dict[str, Target]:
    return {run.point.target.name: run.point.target for run in runs}


def _speeds(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    first = next(iter(names))
    rows = [
        {"load": row.load, "engine": names[row.target],
         "no speculation, tokens/s": f"{row.tokens_per_s:.1f}",
         f"over {names[first]}": span(row.against) + SPEED[row.against and row.against.side()]}
        for row in _load_by_load(table).itertuples()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _gains(runs: RunSet, names: Names) -> pd.DataFrame:
    """Each method over the engine's own baseline, and whether the first engine gains less or more by it."""
    first, rows = next(iter(names)), []
    for draft in dict.fromkeys(run.point.speculation.label for run in runs.drafting):
        own = [run for run in runs if run.point.speculation is None or run.point.speculation.label == draft]
        table = engines.by_target(own)
        gains = table[table["target"] == first].set_index("load")["speedup"]
        for row in _load_by_load(table).itertuples():
            if row.speedup is None:
                continue
            other = gains.get(row.load)
            more = row.speedup.beside(other) if other and row.target != first else None
            cell = {"load": row.load, "draft": draft, "engine": names[row.target]}
            rows.append({**cell, "gain": span(row.speedup), f"beside {names[first]}": GAIN[more]})
    return pd.DataFrame(rows)


def _load_by_load(table: pd.DataFrame) -> pd.DataFrame:
    places = {load: place for place, load in enumerate(dict.fromkeys(table["load"]))}
    return table.sort_values("load", kind="stable", key=lambda loads: loads.map(places))


def _steps(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    rows = [
        {"load": row.load, "prompts": row.domain, "engine": names[row.target], "arm": row.label,
         "tokens/s": row.speed.span(digits=1), "TTFT, ms": f"{1e3 * row.ttft_s:.0f}",
         "tokens a step": f"{row.length:.2f}", "step, ms": f"{1e3 * row.step_s:.1f}"}
        for row in _load_by_load(table).itertuples()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _answers(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    rows = [
        {"load": row.load, "engine": names[row.target], "compared": names.get(row.compared, row.compared),
         "same answers, %": row.same.through(lambda share: 100 * share).span(digits=0), "n": row.same.counted}
        for row in table.itertuples()
    ]  # fmt: skip
    return pd.DataFrame(rows)
