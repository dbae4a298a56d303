"""One model in several precisions: what narrowing changes in speed, in a draft's acceptance."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, speedup, summaries
from specbook.records.run import RunRecord
from specbook.stats import ratios
from specbook.stats.estimate import Estimate

COLUMNS = ("load", "target", "tokens_per_s", "against", "speedup", "length")


def table(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per load and target, all domains together (each once). COLUMNS:

    tokens_per_s and `against` are without speculation, the latter over the first target in the same rounds
    (None for that one); speedup is the draft's over the target's own baseline, length its acceptance length
    in tokens/step. Each is None where nothing says it.
    """
    runs = list(runs)
    speeds, gains, lengths = summaries.throughput(runs), speedup.speedups(runs), acceptance.by_domain(runs)
    first = runs[0].point.target.name
    base, rows = speeds[speeds["method"] == "baseline"], []
    for (load, target), cell in base.groupby(["load", "target"], sort=False):
        mine = gains[(gains["load"] == load) & (gains["target"] == target) & (gains["method"] != "baseline")]
        drafted = lengths[(lengths["load"] == load) & (lengths["target"] == target)]
        other = base[(base["load"] == load) & (base["target"] == first)]
        rows.append(
            {"load": load, "target": target,
             "tokens_per_s": float(np.exp(np.log(cell["output_tokens_per_s"]).mean())),
             "against": None if target == first else _against(cell, other),
             "speedup": speedup.over_restarts(mine)[0] if len(mine) else None,
             "length": acceptance.macro(list(drafted["length"])) if len(drafted) else None}
        )  # fmt: skip
    return summaries.frame(rows, COLUMNS)


def _against(cell: pd.DataFrame, other: pd.DataFrame) -> Estimate | None:
    """Speed over the other's, both measured in one round, with an interval over restarts."""
    keys = ["domain", "restart", "round"]
    both = cell.merge(other, on=keys, suffixes=("", "_other"))
    if both.empty:
        return None
    logs = np.log(both["output_tokens_per_s"] / both["output_tokens_per_s_other"])
    return ratios.geometric_mean_ci(np.exp(logs.groupby(both["restart"]).mean()))
