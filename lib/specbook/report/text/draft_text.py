"""What the figures of drafting methods and of a step's parts show, in words."""

import numpy as np
import pandas as pd

from specbook import config
from specbook.analysis.intervals import side
from specbook.analysis.prediction import AVERAGED
from specbook.bench import experiments
from specbook.records.experiment import ExperimentRecord
from specbook.records.experiment_results import StepTimes
from specbook.report.provenance_line import credit_experiments
from specbook.report.text import count, ends, of, percent
from specbook.suggestions import listed

CLOSE = 0.1
"""Lead of one method over another that noise may turn around."""

DENSE_STEP = "appendix_step"
"""Plan of the experiments on a step of the dense target."""
MIXTURE_STEP = "appendix_mixture_step"
"""Plan of those on the mixture; has the dense target too, in the same precision."""


def crossovers(table: pd.DataFrame, serial: str, parallel: str) -> str:
    """List of the measured crossover K and the predicted one, load by load, from `prediction.crossovers`."""
    if table.empty:
        return f"A crossover can be told where {serial} and {parallel} were both measured at several K."
    single = table[table["domain"] != AVERAGED]
    apart = (single["measured"] - single["predicted"]).abs()
    near = (apart <= 1) | (single["measured"].isna() & single["predicted"].isna())
    lines = [_crossover(row, serial, parallel) for row in table[table["domain"] == AVERAGED].itertuples()]
    agreement = (
        "Of single kinds of traffic, prediction and measurement agree to within one K, or both say never, "
        f"in {of(int(near.sum()), len(single), 'combination')} with a batch."
    )
    if len(far := single[~near]) and far["apart"].max() <= CLOSE:
        agreement += (
            f" In the other {len(far)} the two are never more than {percent(far['apart'].max())} apart, at "
            "whichever K was measured: where lines so close cross is left to noise."
        )
    return "\n".join([*lines, *([f"\n{agreement}"] if len(single) else [])])


def _crossover(row, serial: str, parallel: str) -> str:
    line = (
        f"- **{row.load}**, domains averaged: {parallel} is ahead of {serial} {_from(row, row.measured)} "
        f"as measured, {_from(row, row.predicted)} as predicted"
    )
    if np.isnan(row.measured) or np.isnan(row.predicted):
        same = np.isnan(row.measured) == np.isnan(row.predicted)
        return f"{line}: {'they agree' if same else 'the prediction is wrong here'}."
    return f"{line}: {abs(row.measured - row.predicted):.1f} apart."


def _from(row, k: float) -> str:
    if np.isnan(k):
        return f"not even at K = {row.largest}"
    return f"at every K from {row.smallest}" if k <= row.smallest else f"from K = {k:.1f} on"


def bounds(table: pd.DataFrame) -> str:
    """List, load by load, of how much of what the steps promise arrives end to end (`prediction.bounds`)."""
    lines = []
    for load, part in table.groupby("load", sort=False):
        share = part["share"].astype(float)
        worst = part.loc[share.idxmin()]
        lines.append(
            f"- **{load}**: {percent(share.median())} in the median of {count(len(part), 'point')}; "
            f"{of(int((share >= 0.9).sum()), len(part), 'point')} reach 90 %; least, {percent(share.min())}, "
            f"{worst['label']} on {worst['domain']}. With the time to each first token left out, "
            f"{ends(100 * part['decoding'].astype(float), '{:.0f}')} %."
        )
    return "\n".join(lines) or "No step with speculation can be held against one without."


def step_experiments(hardware: str, plan: str = DENSE_STEP) -> list[tuple[ExperimentRecord, StepTimes]]:
    """What is on record of this hardware's full plan of a step; nothing where it has none."""
    if not config.file(plan, hardware).is_file():
        return []
    return experiments.replay(config.load(plan, hardware, "full"), partial=True)


def step_credit(kept: list[tuple[ExperimentRecord, StepTimes]], plan: str = DENSE_STEP) -> str:
    """Whose numbers they are, or that there are none and what measures them."""
    if not kept:
        return f"not measured yet on this hardware: specbook run {plan}"
    return credit_experiments(kept, "shares by the engine's profiler, times without it")


def step_parts(table: pd.DataFrame) -> str:
    """List of what a step takes, and its largest parts beside the same target's first arm's.

    Made from `steps.parts`.
    """
    lines = []
    for _, of_target in table.groupby("target", sort=False):
        cells = of_target.groupby("arm", sort=False)
        first, *others = ((arm, cell.set_index("part")["milliseconds"]) for arm, cell in cells)
        lines += [_first_step(*first), *(_longer_step(*other, first[1]) for other in others)]
    return "\n".join(lines) or "What a step's time goes into is told once one was profiled."


def _first_step(arm: str, spent: pd.Series) -> str:
    parts = [f"{part} {percent(share)}" for part, share in (spent / spent.sum()).nlargest(3).items()]
    return f"- **{arm}**: {spent.sum():.1f} ms, of which {listed(parts)}."


def _longer_step(arm: str, spent: pd.Series, first: pd.Series) -> str:
    more = spent - first.reindex(spent.index).fillna(0.0)
    parts = [f"{part} {extra:+.1f}" for part, extra in more.loc[more.abs().nlargest(3).index].items()]
    return (
        f"- **{arm}**: {spent.sum():.1f} ms, {spent.sum() / first.sum():.2f} times as long. Most of the "
        f"difference, in ms: {listed(parts)}."
    )


def options(table: pd.DataFrame) -> str:
    """List of which engine options change a step's time beyond its interval, from `steps.options`."""
    lines = []
    for option, cell in table.groupby("option", sort=False):
        arms: dict[str, list[str]] = {}
        for arm, one in zip(cell["arm"], cell["estimate"], strict=True):
            effect = {"below": "shortens the step of", "above": "lengthens the step of"}.get(
                side(one), "changes nothing beyond its interval for"
            )
            arms.setdefault(effect, []).append(f"{arm} ({one.span('×')})")
        effects = "; ".join(f"{effect} {listed(names)}" for effect, names in arms.items())
        lines.append(f"- *{option}* {effects}.")
    return "\n".join(lines) or "Neither was tried yet."
