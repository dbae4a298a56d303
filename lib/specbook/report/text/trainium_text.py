"""The Trainium chapter's answer: what structured and open-ended prompts gain, and when answers begin."""

from collections.abc import Sequence

import pandas as pd

from specbook.analysis import traffic
from specbook.records.run import RunRecord
from specbook.report.text import answers_text, percent
from specbook.suggestions import listed


def answer(runs: Sequence[RunRecord], best: pd.DataFrame, waits: pd.DataFrame) -> str:
    """Answer on what structured and open-ended prompts gain, what becomes of the time to first token, and
    whether a Neuron chip said so. Made from `traffic.best` and `traffic.first_token`.
    """
    each = [
        f"At {one['load']} {one['method']} runs at {_gain(one[traffic.STRUCTURED])} the speed of the best "
        f"baseline on structured prompts, and at {_gain(one[traffic.OPEN])} on open-ended ones."
        for one in traffic.contrast(best)
    ]
    measured = any(run.hardware.kind == "neuron" for run in runs)
    gains = " ".join(each) or answers_text.NO_PAIR
    where = "" if measured else " **Not measured yet on a Neuron chip:** the line below names the machine."
    return f"**Answer.** {gains}{_first_token(waits)}{where}"


def _first_token(waits: pd.DataFrame) -> str:
    ttft = waits[waits["metric"] == "ttft_s"]
    if ttft.empty:
        return ""
    changed = int((ttft["verdict"] == "changed").sum())
    each = listed(
        f"{1e3 * row.baseline_s:.0f} → {1e3 * row.arm_s:.0f} ms with {row.method} at {row.load}"
        for row in ttft.itertuples()
    )
    return (
        f" The median time to the first token is shown to change by more than {percent(traffic.SAME)} in "
        f"{changed} of {len(ttft)} comparisons: {each}."
    )


def _gain(row: pd.Series) -> str:
    return f"{row['estimate'].span('×')} (K={row['num_speculative_tokens']})"
