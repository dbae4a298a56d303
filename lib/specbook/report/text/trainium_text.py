"""What structured and open-ended prompts gain, in words and a table, from `analysis.traffic`."""

from collections.abc import Sequence

import pandas as pd

from specbook.analysis import traffic
from specbook.analysis.intervals import side
from specbook.records.run import RunRecord
from specbook.report.text import answers_text
from specbook.suggestions import listed


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


def gains(best: pd.DataFrame) -> pd.DataFrame:
    """Table of speed-ups at the best K, one row for each of `traffic.best`."""
    columns = {
        "load": best["load"], "method": best["method"], "prompts": best["traffic"],
        "domains": best["domains"].map(listed), "best K": best["num_speculative_tokens"],
        "speed-up": [one.span("×") for one in best["estimate"]],
        "n": [one.counted for one in best["estimate"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "method", "prompts"])


def contrasted(best: pd.DataFrame) -> str:
    """Sentences on how far apart the two kinds of prompts are, and which of them loses (`traffic.best`)."""
    lines = []
    for one in traffic.contrast(best):
        kinds = (traffic.STRUCTURED, traffic.OPEN)
        lost = [name for name in kinds if side(one[name]["estimate"]) == "below"]
        slower = f"; slower than no speculation beyond the interval: {listed(lost)}" if lost else ""
        apart = "cannot be compared with" if one["ratio"] is None else f"is {one['ratio'].span(' times')}"
        lines.append(
            f"- **{one['load']}**, {one['method']}: the speed-up of structured prompts {apart} that of "
            f"open-ended ones{slower}."
        )
    return "\n".join(lines) or "Only one kind of prompts was measured beside a baseline: no contrast."
