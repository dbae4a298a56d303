"""A schedule of K in words: the reason of each row, and the methods side by side."""

from collections.abc import Iterator, Sequence

from specbook.analysis.schedule import Row, Schedule
from specbook.stats import power


def reasons(schedule: Schedule) -> list[str]:
    """A line for each row; and what nobody measured, where a draft has rows without drafting."""
    lines = [f"{_batches(row)}: K={row.k}, {_reason(row)}" for row in schedule.rows]
    if schedule.draft and schedule.draft.model and not all(row.k for row in schedule.rows):
        lines.append("at K=0 the draft still runs one pass a step: no record here holds its cost")
    return lines


def _batches(row: Row) -> str:
    return f"batch {row.last}" if row.first == row.last else f"batch {row.first} to {row.last}"


def _reason(row: Row) -> str:
    if row.shown is None:
        return "nothing was measured there"
    estimate = row.shown.estimate
    at = f"{estimate.format('×')} at batch {row.shown.batch}"
    if row.k:
        return f"the best lower bound: {at}"
    more = power.more_restarts(row.shown.ratio.by_restart, estimate)
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
