"""Whether an engine obeyed a schedule of K: counts -> K drafted at each batch, and acceptance after K = 0."""

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, summaries
from specbook.config import draft_schedule
from specbook.config.draft_schedule import Rows
from specbook.records.experiment_results import Counted, ObeyedSchedule
from specbook.stats import ratios

PARTS = ("before", "during", "after")
BATCHES = ("concurrency", "scheduled_k", "drafted_k", "share", "length", "step", "speed")
COMEBACKS = ("part", "share", "share_alone", "length", "length_alone", "estimate")


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
