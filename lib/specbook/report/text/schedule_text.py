"""A schedule of K in words: the reason of each row, the methods side by side, and the chapter's answer."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from specbook.analysis.schedule import Row, Schedule
from specbook.report.text import count
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import more_restarts
from specbook.suggestions import listed


def reasons(schedule: Schedule) -> list[str]:
    """A line for each row; and what nobody measured, where a draft has rows without drafting."""
    lines = [f"{_batches(row)}: K={row.k}, {_reason(row)}" for row in schedule.rows]
    idle = [row.shown for row in schedule.rows if not row.k]
    if schedule.draft and schedule.draft.model and any(one is None or one.k for one in idle):
        lines.append("at K=0 the draft still runs one pass a step: no record here holds its cost")
    return lines


def _batches(row: Row) -> str:
    return f"batch {row.last}" if row.first == row.last else f"batch {row.first} to {row.last}"


def _reason(row: Row) -> str:
    if row.shown is None:
        return "nothing was measured there"
    estimate = row.shown.estimate
    at = f"{estimate.format('×')} at batch {row.shown.batch}"
    if row.k == row.shown.k:
        slower = "" if row.bound >= 1 else ", and not shown to be as fast as no speculation"
        return f"the best lower bound: {at}{slower}"
    more = more_restarts(row.shown.ratio.by_restart, estimate)
    doubt = f"; {more} more restarts like these would show it" if more else ""
    return f"no K is shown to be as fast, the nearest is K={row.shown.k}: {at}{doubt}"


def side_by_side(schedules: Sequence[Schedule]) -> Iterator[str]:
    """The best method at each measured batch, and what it would take to have each at its own."""
    rows = [(one.method, row) for one in schedules for row in one.rows if row.shown]
    for batch in sorted({row.shown.batch for _, row in rows}):
        there = [pair for pair in rows if pair[1].shown.batch == batch]
        method, best = max(there, key=lambda pair: round(pair[1].bound, 2))
        yield f"batch {batch}: " + (f"{method} K={best.k}" if best.k else "no speculation")
    first = schedules[0]
    yield (
        "A server loads one draft when it starts: another method is a restart, in Kubernetes a rollout. "
        f"Of those that stay, {first.method} gains most, {first.gain:.2f}× in the mean of the bounds:"
    )


def answer(
    chosen: Sequence[Schedule],
    tried: str,
    beside: pd.DataFrame,
    over_day: Mapping[str, Mapping[str, Estimate]],
) -> str:
    """Answer with the K of each batch, and what the schedule did where it was measured.

    Args:
        chosen: by other chapters' records, the best first.
        tried: the rows that were measured as an arm.
        beside: of `schedule.beside_fixed`, that arm's.
        over_day: a schedule -> another arm -> its mean time of an answer over that arm's.
    """
    said = [f"By the records, {one.method} drafts {_drafted(one)}." for one in chosen[:1]]
    if len(beside):
        said.append(
            f"The schedule that was measured, {tried}, has its lowest bound against no speculation "
            f"{_least(beside, 'over_none')}, and against the best fixed K of each batch "
            f"{_least(beside, 'over_best')}, n={beside['over_none'].iloc[0].counted}."
        )
    days = []
    for schedule, others in over_day.items():
        n = next(iter(others.values())).counted
        times = listed(f"**{one.span('×')}** that of {arm}" for arm, one in others.items())
        days.append(f"- with {schedule} {times}, n={n}")
    if days:
        said.append(
            "Over a day of changing traffic the mean time of an answer is, in the geometric mean of days:\n"
        )
    text = " ".join(said or ["No schedule can be made: too little was measured for an interval."])
    return "\n".join([f"**Answer.** {text}", *days])


def _drafted(chosen: Schedule) -> str:
    """`5 tokens at batch 1, and nothing at batch 2 to 32`."""
    drafted = [count(row.k, "token") if row.k else "nothing" for row in chosen.rows]
    return listed(f"{k} at {_batches(row)}" for k, row in zip(drafted, chosen.rows, strict=True))


def _least(beside: pd.DataFrame, name: str) -> str:
    """`at batch 8, at **0.99× [0.97, 1.01]**`, of the estimate whose lower end is the lowest."""
    bounds = [one.value if one.low is None else one.low for one in beside[name]]
    batch, one = beside.iloc[bounds.index(min(bounds))][["concurrency", name]]
    return f"at batch {batch}, at **{one.span('×')}**"
