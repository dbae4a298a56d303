"""K by the requests in a step: rows of (first batch, last batch, K), both ends included, as vLLM takes them.

What the engine does with `num_speculative_tokens_per_batch_size`, read in the source of vLLM 0.32:

- Each step looks K up by the requests scheduled in it: those in prefill count, those that wait do not. What
  is drafted in one step is verified in the next, so the step after a threshold still verifies the K of
  before. There is no hysteresis: a load that sits on a threshold changes K each time it crosses it
  (`v1/core/sched/scheduler.py`, `v1/core/sched/async_scheduler.py`).
- Rows begin at batch 1 and do not overlap. In a gap, and above the last row, the K of the row before goes on;
  a K above `num_speculative_tokens`, itself 1 or more, is lowered to it (`v1/spec_decode/dynamic/utils.py`).
- At K = 0 a head or a draft model still runs one forward pass a step, which keeps its KV cache whole: that is
  dearer than no speculation, and a draft loses no context by it. Prompt lookup returns at once
  (`v1/spec_decode/llm_base_proposer.py`, `v1/spec_decode/ngram_proposer.py`).
- Suffix decoding asserts the K that it was started with: another ends the engine
  (`v1/spec_decode/suffix_decoding.py`).
- A head that drafts in parallel makes rows for the K that it was started with, and cuts them into rows of the
  step's K: an error where that does not divide, another request's tokens where it does. Only 0 and the
  largest K are safe (`propose` in `v1/spec_decode/llm_base_proposer.py`).
- Both model runners obey, the V1 runner that serves processors without Triton among them. It gives up full
  CUDA graphs. With data parallelism the engine warns, and keeps to the largest K (`config/vllm.py`).
"""

from typing import Literal

Rows = tuple[tuple[int, int, int], ...]
VaryingK = Literal["any", "all or none", "never"]
"""Which K a method may draft in a step: any up to the largest, the largest or 0, or the largest only."""


def problem(rows: Rows, k: int, varying: VaryingK) -> str | None:
    """Why the engine would not obey these rows for a draft whose largest K is `k`; None where it would."""
    last_before = 0
    for first, last, own in rows:
        if not last_before < first <= last or not 0 <= own <= k:
            return f"row {[first, last, own]}: batches rise from row to row, and K is 0 to {k}"
        last_before = last
    if not rows or rows[0][0] != 1:
        return f"rows {[list(row) for row in rows]}: the first one begins at batch 1"
    drafted = {row[2] for row in rows}
    allowed = {"any": drafted, "all or none": {0, k}, "never": {k}}[varying]
    if drafted <= allowed:
        return None
    return f"K {sorted(drafted - allowed)}: a server of this method drafts {sorted(allowed)} and nothing else"


def at(rows: Rows, batch: int) -> int:
    """K of a step with so many requests."""
    return next(k for first, _, k in reversed(rows) if first <= batch)


def label(rows: Rows) -> str:
    """`K=5 from batch 1, 0 from 9`."""
    return "K=" + ", ".join(f"{k} from {'' if first > 1 else 'batch '}{first}" for first, _, k in rows)
