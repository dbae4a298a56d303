"""A day of traffic by arm: how long requests took, how many were in flight, and each arm beside another."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from specbook.analysis import acceptance, scaling, summaries
from specbook.records.experiment_results import BASELINE, DayArm, DayArms
from specbook.stats import ratios

MEASURES = (
    "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s", "e2e_p50_s", "e2e_p99_s", "e2e_mean_s",
    "in_flight", "tokens_per_s",
)  # fmt: skip
DAYS = ("arm", "restart", *MEASURES, "sent", "lost", "length")
BESIDE = ("arm", *MEASURES)


def days(result: DayArms) -> pd.DataFrame:
    """One row per arm and restart, in the order of the record.

    Columns: arm, restart, MEASURES, sent and lost (requests), length (tokens a draft; NaN without). Times are
    of whole answers; a percentile of too few is NaN (`scaling.latency`). `in_flight` is the mean over the
    day, from the first arrival to the last byte.
    """
    table = []
    for one in result.arms:
        rows = scaling.requests(one)
        span_s = (rows["sent_s"] + rows["e2e_s"]).max() - rows["sent_s"].min()
        counted = scaling.counts(rows)
        table.append({
            "arm": one.arm, "restart": one.restart, **scaling.latency(rows),
            "e2e_mean_s": rows.loc[rows["outcome"] == "whole", "e2e_s"].mean(),
            "in_flight": rows["e2e_s"].sum() / span_s, "tokens_per_s": rows["output_tokens"].sum() / span_s,
            "sent": counted["sent"], "lost": counted["lost"],
            "length": acceptance.length(one.spec_decode) if one.spec_decode else np.nan,
        })  # fmt: skip
    return summaries.frame(table, DAYS)


def beside(table: pd.DataFrame, base: str = BASELINE) -> pd.DataFrame:
    """Every other arm of `days` over `base`: for each of MEASURES the `Estimate` of the ratio, over restarts.

    None where a percentile stands on too few requests, or the arms share no restart.
    """
    both = table.merge(table[table["arm"] == base], on="restart", suffixes=("", "_base"))
    rows = []
    for arm, own in both[both["arm"] != base].groupby("arm", sort=False):
        pairs = {name: own[[name, f"{name}_base"]].dropna().T.to_numpy(float) for name in MEASURES}
        found = {name: ratios.ratio_ci(*pair) if pair.size else None for name, pair in pairs.items()}
        rows.append({"arm": arm, **found})
    return summaries.frame(rows, BESIDE)


def in_flight(one: DayArm, at_s: ArrayLike) -> NDArray[np.int64]:
    """Requests that were sent and not yet answered at each of these times, [n]."""
    sent_s = np.array(one.requests.sent_s)
    ends_s = np.sort(sent_s + one.requests.e2e_s)
    return np.searchsorted(np.sort(sent_s), at_s, "right") - np.searchsorted(ends_s, at_s, "right")
