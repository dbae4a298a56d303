"""The Trainium chapter's answer: what structured and open-ended prompts gain."""

from collections.abc import Sequence

import pandas as pd

from specbook.analysis import traffic
from specbook.records.run import RunRecord
from specbook.report.text import answers_text


def answer(runs: Sequence[RunRecord], best: pd.DataFrame) -> str:
    """Answer on what structured and open-ended prompts gain, and whether a Neuron chip said so.

    Made from `traffic.best`.
    """
    each = [
        f"At {one['load']} {one['method']} runs at {_gain(one[traffic.STRUCTURED])} the speed of the best "
        f"baseline on structured prompts, and at {_gain(one[traffic.OPEN])} on open-ended ones."
        for one in traffic.contrast(best)
    ]
    measured = any(run.hardware.kind == "neuron" for run in runs)
    gains = " ".join(each) or answers_text.NO_PAIR
    where = "" if measured else " **Not measured yet on a Neuron chip:** the machine is the one above."
    return f"**Answer.** {gains}{where}"


def _gain(row: pd.Series) -> str:
    return f"{row['estimate'].span('×')} (K={row['num_speculative_tokens']})"
