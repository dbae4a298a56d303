"""How often first chunks came late, where, and whether the engine was slow: requests -> counts."""

from typing import NamedTuple

import numpy as np
import pandas as pd


class LateAnswers(NamedTuple):
    """Answers whose first chunk came late: see `stats.windows.late_first_chunks`."""

    count: int
    requests: int
    """Number of all requests, late or not, that `count` is out of."""
    worst: str
    """The arm and load with most of them; so many, of so many requests:"""
    worst_count: int
    worst_requests: int
    pace: float
    """Median over them of E2E per token, over the median of their window's others; NaN without others."""


def late_answers(requests: pd.DataFrame) -> LateAnswers:
    """Late answers among `summaries.pooled_requests`."""
    some = requests[requests["late"]]
    if some.empty:
        return LateAnswers(0, len(requests), "", 0, 0, np.nan)
    places = requests.groupby(["arm", "load"], sort=False)["late"].agg(["sum", "size"])
    arm, load = places["sum"].idxmax()
    most, of = places.loc[(arm, load)]
    return LateAnswers(len(some), len(requests), f"{arm} at {load}", int(most), int(of), _pace(requests))


def _pace(requests: pd.DataFrame) -> float:
    window = ["arm", "load", "domain", "restart", "round"]
    timed = requests.assign(pace_s=requests["e2e_s"] / requests["output_tokens"].clip(lower=1))
    usual = timed[~timed["late"]].groupby(window)["pace_s"].median().rename("usual_s")
    some = timed[timed["late"]].join(usual, on=window)
    return float((some["pace_s"] / some["usual_s"]).median())
