"""Whether the engine was slow where first chunks came late: requests -> a ratio."""

import pandas as pd


def late_pace(requests: pd.DataFrame) -> float:
    """Median over late answers (`stats.windows.late_first_chunks`) of E2E per token, over the median of their
    window's others, among `summaries.pooled_requests`; NaN where no answer is late, or all are.
    """
    window = ["arm", "load", "domain", "restart", "round"]
    timed = requests.assign(pace_s=requests["e2e_s"] / requests["output_tokens"].clip(lower=1))
    usual = timed[~timed["late"]].groupby(window)["pace_s"].median().rename("usual_s")
    some = timed[timed["late"]].join(usual, on=window)
    return float((some["pace_s"] / some["usual_s"]).median())
