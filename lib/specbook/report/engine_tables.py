"""One model on two engines in the same rounds: for `book/engines.md`, and a sentence of the front page."""

from collections.abc import Mapping

import pandas as pd

from specbook import engine, records
from specbook.analysis import engines
from specbook.config.schema import Target
from specbook.records.run_set import RunSet
from specbook.report.provenance_line import credit, served_by, window_warnings
from specbook.report.tables import markdown, span
from specbook.suggestions import listed

PLAN, HARDWARE = "appendix_engines", "cpu"
NOTHING = f"**Not measured yet.** `specbook run {PLAN}` measures it, in one to two hours on two cores."
SPEED = {"above": ", faster", "below": ", slower", "within": ", no difference shown", None: ""}
GAIN = {"above": "more", "below": "less", "within": "no difference shown", None: ""}
Names = Mapping[str, str]
"""Title by the target's name, in the plan's order."""


def render() -> str:
    """Four tables: speeds, gains, steps, and answers that are the same; and whose numbers they are."""
    runs = records.of_chapter(PLAN, HARDWARE)
    if not runs:
        return f"{NOTHING}\n"
    names = {name: title(target) for name, target in _targets(runs).items()}
    tables = [
        _speeds(engines.by_target(runs), names), _gains(runs, names),
        _steps(engines.steps(runs), names), _answers(engines.agreement(runs), names),
    ]  # fmt: skip
    shown = [markdown(table) for table in tables if len(table)]  # a campaign may have been broken off
    return "\n\n".join([*shown, credit(runs, served_by(runs)), *window_warnings(runs)]) + "\n"


def faster_baseline() -> list[str]:
    """A sentence for the front page where another engine than the first has the faster baseline, weights and
    precision being the same; none where that is not shown.
    """
    runs = records.of_chapter(PLAN, HARDWARE)
    if not runs:
        return []
    targets = _targets(runs)
    first = next(iter(targets.values()))
    ahead: dict[str, list[str]] = {}
    for row in engines.by_target(runs).itertuples():
        one = targets[row.target]
        alike = (one.dtype, one.quantization) == (first.dtype, first.quantization)
        if alike and row.against is not None and row.against.side() == "above":
            ahead.setdefault(title(one), []).append(f"{row.against.span('×')} ({row.load})")
    return [
        f"If an engine is slow without drafts, part of its speed-up only makes up for that. Without "
        f"speculation {name} serves {first.name} at {listed(each)} the speed of {title(first)}."
        for name, each in ahead.items()
    ]


def title(target: Target) -> str:
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
        own = (run for run in runs if not (how := run.point.speculation) or how.label == draft)
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
