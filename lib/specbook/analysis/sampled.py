"""Do sampled answers come from the target's own distribution? Each arm is compared with the
baseline of its restart."""

from collections.abc import Sequence

import pandas as pd

from specbook.records.experiment_results import BASELINE, SampledAnswers, SampledArm
from specbook.stats.two_sample import two_sample


def compared(result: SampledAnswers) -> pd.DataFrame:
    """A row for each arm and temperature, in the order of the record.

    Columns: arm, temperature, answers (of both sides), accepted (draft tokens; 0 without speculation),
    p_value (all restarts in one test: answers change sides within their prompt and restart), by_restart
    (tuple of p-values).
    """
    base = {one.restart: one for one in result.arms if one.arm == BASELINE}
    rows: dict[tuple[str, float], list[SampledArm]] = {}
    for one in result.arms:
        if one.arm != BASELINE:
            rows.setdefault((one.arm, one.temperature), []).append(one)
    return pd.DataFrame([_row(key, ours, [base[one.restart] for one in ours]) for key, ours in rows.items()])


def _row(key: tuple[str, float], ours: Sequence[SampledArm], base: Sequence[SampledArm]) -> dict[str, object]:
    each = [two_sample(a.answers, b.answers) for a, b in zip(base, ours, strict=True)]
    pooled = two_sample([x for one in base for x in one.answers], [x for one in ours for x in one.answers])
    return {
        "arm": key[0], "temperature": key[1], "answers": pooled.num_answers,
        "accepted": sum(one.spec_decode.num_accepted_tokens for one in ours if one.spec_decode),
        "p_value": pooled.p_value, "by_restart": tuple(one.p_value for one in each),
    }  # fmt: skip
