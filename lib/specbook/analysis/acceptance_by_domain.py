"""What a probe found, by domain: acceptance over tokens and over requests, and how far requests differ."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, summaries
from specbook.records.experiment_results import Probed

COLUMNS = (
    "domain", "prompts", "refused", "output_tokens", "tokens_per_s", "rate", "length", "macro", "p10", "p90",
    "estimate", "joint", "conditional",
)  # fmt: skip


def by_domain(answers: Iterable[Probed]) -> pd.DataFrame:
    """One row per domain (COLUMNS), in the order of their first prompts.

    rate and length are micro averages, over tokens, and `estimate` is the length's, its interval over
    prompts; macro, p10 and p90 are of the lengths of single requests. joint and conditional are [K] arrays.
    NaN where nothing was drafted. tokens_per_s is that of one request at a time.
    """
    groups: dict[str, list[Probed]] = {}
    for one in answers:
        groups.setdefault(one.domain, []).append(one)
    return summaries.frame([_row(domain, group) for domain, group in groups.items()], COLUMNS)


def _row(domain: str, group: list[Probed]) -> dict:
    answered = [one for one in group if one.refused is None]
    counted = [one.spec_decode for one in answered if one.spec_decode and one.spec_decode.num_drafts]
    took = sum(one.e2e_s for one in answered)
    tokens = sum(one.output_tokens for one in answered)
    row = {
        "domain": domain, "prompts": len(answered), "refused": len(group) - len(answered),
        "output_tokens": tokens, "tokens_per_s": tokens / took if took else np.nan,
    }  # fmt: skip
    if not counted:
        return row | {name: np.nan for name in COLUMNS if name not in row} | {"estimate": None}
    pooled, lengths = acceptance.pool(counted), [acceptance.length(one) for one in counted]
    return row | {
        "rate": acceptance.rate(pooled), "length": acceptance.length(pooled),
        "macro": acceptance.macro(lengths), "p10": float(np.quantile(lengths, 0.1)),
        "p90": float(np.quantile(lengths, 0.9)), "estimate": acceptance.length_ci(counted, "prompts"),
        "joint": acceptance.joint(pooled), "conditional": acceptance.conditional(pooled),
    }  # fmt: skip
