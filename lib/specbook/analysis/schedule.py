"""K by batch from measurements: what a draft is to draft at each batch, and why; whether an engine obeyed.

At each measured batch that K whose speed-up over no speculation has the highest lower bound; of bounds that
agree to two digits the smaller K; 0 where none is 1.0 or more. A draft that is not used has a price of its
own: where records of a schedule hold that of its K = 0, it competes like any other K. A batch between two
measured ones gets what the larger of them gets, because a K gains less as a batch grows; above the largest
nothing is drafted.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, speedup, summaries
from specbook.analysis.speedup import PairedRatios
from specbook.config import draft_schedule
from specbook.config.draft_schedule import Rows, VaryingK
from specbook.config.schema import Speculation
from specbook.errors import RecordError
from specbook.records.experiment_results import Counted, ObeyedSchedule
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import ratios, windows
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import MIN_INTERVAL

BESIDE = ("concurrency", "k", "best", "over_none", "over_best")
PARTS = ("before", "during", "after")
BATCHES = ("concurrency", "scheduled_k", "drafted_k", "share", "length", "step", "speed")
COMEBACKS = ("part", "share", "share_alone", "length", "length_alone", "estimate")


class Measured(NamedTuple):
    """A draft at one batch: its speed over the best baseline of its rounds, the mean of all domains."""

    batch: int
    draft: Speculation
    ratio: PairedRatios
    estimate: Estimate

    @property
    def k(self) -> int:
        """Its draft tokens a step."""
        return _k(self.draft, self.batch)


class Row(NamedTuple):
    """What is drafted from one batch to another, both included."""

    first: int
    last: int
    k: int
    shown: Measured | None
    """What says so, at the measured batch: that K, or where 0 was not measured the nearest to it."""

    @property
    def bound(self) -> float:
        """Speed-up over no speculation that is shown at least."""
        return self.shown.estimate.low if self.shown and self.shown.k == self.k else 1.0


class Schedule(NamedTuple):
    """What one method is to draft at each batch."""

    method: str
    draft: Speculation | None
    """With its K by batch; None where it is never to draft."""
    rows: tuple[Row, ...]
    gain: float
    """Geometric mean of the bounds at the measured batches."""


def measured(runs: Iterable[RunRecord]) -> list[Measured]:
    """Every draft of one K at every batch, and schedules where they draft nothing, by batch and K.

    Only windows whose slots were full count, and only drafts that have every domain of their batch. The mean
    may hide a domain that is slower: give the runs of that one alone to see.

    Raises:
        RecordError: if nothing is left, or the records are of several targets.
    """
    closed = RunSet(run for run in RunSet.of(runs).closed if _tells_of_one_k(run))
    loops = summaries.concurrency(closed)
    full = loops["steady"] & ((loops["asked"] == 1) | (loops["share"] >= windows.FULL))
    kept = RunSet(run for run, is_full in zip(closed, full, strict=True) if is_full)
    table = speedup.speedups(kept)
    table = table[table["method"] != "baseline"]
    if len(table[["target", "dtype"]].drop_duplicates()) != 1:
        raise RecordError(
            f"of {len(closed)} closed loops, {len(kept)} with all slots taken, no draft of one target shares "
            "a round with a baseline. To fix: name the plan of one target, with eight requests a slot or more"
        )
    loads = {run.point.load.label: run.point.load.concurrency for run in kept}
    drafts = {str(run.point.arm): run.point.speculation for run in kept.drafting}
    choices = [
        Measured(
            loads[load], drafts[arm], PairedRatios.mean(list(cells["paired"])), speedup.over_domains(cells)
        )
        for (load, arm), cells in table.groupby(["load", "arm"], sort=False)
        if len(cells) == table.loc[table["load"] == load, "domain"].nunique()
    ]
    return sorted(choices, key=lambda one: (one.batch, one.k))


def _tells_of_one_k(run: RunRecord) -> bool:
    how = run.point.speculation
    if how is None or how.synthetic_acceptance_rates:
        return how is None
    return how.num_speculative_tokens_per_batch_size is None or _k(how, run.point.load.concurrency) == 0


def _k(how: Speculation, batch: int) -> int:
    rows = how.num_speculative_tokens_per_batch_size
    return how.num_speculative_tokens if rows is None else draft_schedule.at(rows, batch)


def schedules(every: Sequence[Measured], max_num_seqs: int) -> list[Schedule]:
    """A schedule for each method, for a server of so many sequences; that of the highest gain first.

    Raises:
        RecordError: if a method has no interval at one of its batches, saying how many restarts it lacks.
    """
    cells: dict[str, dict[int, dict[int, Measured]]] = {}
    for one in every:
        cells.setdefault(one.draft.drafting.title, {}).setdefault(one.batch, {})[one.k] = one
    made = [_schedule(method, at_batches, max_num_seqs) for method, at_batches in cells.items()]
    return sorted(made, key=lambda one: -round(one.gain, 2))


def _schedule(method: str, at_batches: Mapping[int, Mapping[int, Measured]], max_num_seqs: int) -> Schedule:
    lows = {batch: _lows(method, batch, there) for batch, there in at_batches.items()}
    drafts = {k: one.draft for there in at_batches.values() for k, one in there.items()}
    varying = next(iter(drafts.values())).drafting.varying_k
    chosen, rows, first = _choose(lows, varying), [], 1
    for batch, there in at_batches.items():
        if first <= max_num_seqs:
            k = chosen[batch]
            shown = there[k if k in lows[batch] else _best(lows[batch])]
            rows.append(Row(first, min(batch, max_num_seqs), k, shown))
            first = batch + 1
    gain = math.exp(sum(math.log(row.bound) for row in rows) / len(rows))
    if first <= max_num_seqs:
        rows.append(Row(first, max_num_seqs, rows[-1].k if varying == "never" else 0, None))
    ks = {row.k for row in rows}
    by_size = None if len(ks) == 1 else tuple((row.first, row.last, row.k) for row in rows)
    draft = (
        drafts[max(ks)].model_dump() | {"num_speculative_tokens_per_batch_size": by_size} if max(ks) else None
    )
    return Schedule(method, draft and Speculation.model_validate(draft), tuple(rows), gain)


def _lows(method: str, batch: int, there: Mapping[int, Measured]) -> dict[int, float]:
    """K -> lower bound, of those that have one."""
    lows = {k: one.estimate.low for k, one in there.items() if one.estimate.low is not None}
    if not lows:
        n = max(one.estimate.n for one in there.values())
        more = f"{MIN_INTERVAL - n} more (`specbook run` with --set restarts={MIN_INTERVAL})"
        raise RecordError(
            f"{method} at batch {batch} has {n} restarts beside a baseline, and too few for an interval. To "
            f"fix: measure {more if n < MIN_INTERVAL else f'{MIN_INTERVAL} prompts a domain or more'}"
        )
    return lows


def _choose(lows: Mapping[int, Mapping[int, float]], varying: VaryingK) -> dict[int, int]:
    """batch -> K, from batch -> K -> lower bound."""
    idle = {batch: own.get(0, 1.0) for batch, own in lows.items()}
    faster = {
        batch: {k: low for k, low in own.items() if k and low >= idle[batch]} for batch, own in lows.items()
    }
    if varying == "any":
        return {batch: _best(own) for batch, own in faster.items()}
    ks = {k for own in faster.values() for k in own}
    if varying == "never":
        ks = {k for k in ks if all(k in own for own in faster.values())}
    only = _best({k: sum(math.log(own.get(k, idle[batch])) for batch, own in faster.items()) for k in ks})
    return {batch: only if only in own else 0 for batch, own in faster.items()}


def _best(values: Mapping[int, float]) -> int:
    """The K of the highest value, of those that agree to two digits the smallest; 0 of none."""
    return max(sorted(values), key=lambda k: round(values[k], 2), default=0)


def beside_fixed(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """A schedule that was measured as an arm beside fixed K: one row per batch, domains averaged.

    Columns: concurrency; k, what it drafts there; best, the fixed K of the highest mean there; over_none and
    over_best, its speed over no speculation's and over that K's, the `Estimate`s over the same rounds.
    """
    closed = RunSet.of(runs).closed
    drafts = {str(run.point.arm): run.point.speculation for run in closed.drafting}
    batches = {run.point.load.label: run.point.load.concurrency for run in closed}
    rows = []
    for load, cells in speedup.speedups(closed).groupby("load", sort=False):
        own = cells[cells["arm"].isin(list(drafts))].groupby("arm", sort=False)
        means = {arm: PairedRatios.mean(list(of_arm["paired"])) for arm, of_arm in own}
        varying = [arm for arm in means if drafts[arm].num_speculative_tokens_per_batch_size]
        by_k = {drafts[arm].num_speculative_tokens: arm for arm in means if arm not in varying}
        best = max(by_k, key=lambda k: means[by_k[k]].estimate().value, default=0)
        for arm in varying if by_k else ():
            own_k = _k(drafts[arm], batches[load])
            over = means[arm].estimate(), means[arm].over(means[by_k[best]]).estimate()
            rows.append(dict(zip(BESIDE, (batches[load], own_k, best, *over), strict=True)))
    return summaries.frame(rows, BESIDE).sort_values("concurrency", ignore_index=True)


def by_batch(rows: Rows, result: ObeyedSchedule) -> pd.DataFrame:
    """One row per batch, its turns pooled.

    Columns: concurrency, scheduled_k (by the rows), drafted_k (draft tokens a draft; NaN where none was),
        share (see `share`), length (tokens a draft), and `step` and `speed`, the time of a step and the
        tokens/s over those without speculation, each an `Estimate` over turns.
    """
    table = []
    for one in result.batches:
        drafts = acceptance.pool(turn.spec_decode for turn in one.scheduled)
        both = one.scheduled, one.plain
        steps, speeds = (
            ratios.ratio_ci(*([of(turn) for turn in turns] for turns in both), unit_of_n="turns")
            for of in (lambda turn: turn.step_s, lambda turn: turn.server.generation_tokens / turn.seconds)
        )
        k = drafts.num_draft_tokens / drafts.num_drafts if drafts.num_drafts else np.nan
        own = one.concurrency, draft_schedule.at(rows, one.concurrency), k, share(one.scheduled)
        table.append(dict(zip(BATCHES, (*own, acceptance.length(drafts), steps, speeds), strict=True)))
    return summaries.frame(table, BATCHES)


def share(counts: tuple[Counted, ...]) -> float:
    """Share of decode steps, each request's own, that verified a draft.

    Every step of a request yields a token beside the accepted ones; its first step, the prefill, has no
    draft. Near a threshold it lies between 0 and 1 where one side drafts nothing. Tokens accepted behind an
    answer's end are counted and not written, which hides some steps: at most 1 is given.
    """
    drafts = acceptance.pool(one.spec_decode for one in counts)
    tokens = sum(one.server.generation_tokens - one.server.requests_finished for one in counts)
    return min(1.0, drafts.num_drafts / (tokens - drafts.num_accepted_tokens))


def comebacks(result: ObeyedSchedule) -> pd.DataFrame:
    """PARTS of the answers that live through a burst, beside the same parts without it.

    Columns: part, and with the burst and alone the `share` of decode steps with a draft and the acceptance
        length; `estimate`, the ratio of the lengths over turns, None where a turn drafted nothing.
    """
    table = []
    for i, part in enumerate(PARTS):
        sides = [tuple(getattr(one, how)[i] for one in result.comebacks) for how in ("burst", "alone")]
        lengths = [[acceptance.length(one.spec_decode) for one in side] for side in sides]
        pooled = [acceptance.length(acceptance.pool(one.spec_decode for one in side)) for side in sides]
        whole = np.isfinite(lengths).all()
        estimate = ratios.ratio_ci(*lengths, unit_of_n="turns") if whole else None
        table.append(dict(zip(COMEBACKS, (part, *map(share, sides), *pooled, estimate), strict=True)))
    return summaries.frame(table, COMEBACKS)
