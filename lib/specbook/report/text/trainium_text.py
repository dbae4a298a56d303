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
        f"at {one['load']} the speed-up of {one['method']} is {_gain(one[traffic.STRUCTURED])} on structured "
        f"prompts and {_gain(one[traffic.OPEN])} on open-ended ones"
        for one in traffic.contrast(best)
    ]
    measured = any(run.hardware.kind == "neuron" for run in runs)
    gains = f"Each at its own best K of those measured, {'; '.join(each)}." if each else answers_text.NO_PAIR
    where = "" if measured else " **Not measured yet on a Neuron chip:** the machine is the one above."
    return f"**Answer.** {gains}{where}"


def _gain(row: pd.Series) -> str:
    return f"{row['estimate'].span('×')} at K={row['num_speculative_tokens']}"
