"""One model in several precisions: what narrowing changes in speed, and in a draft's acceptance."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, paired, speedup, summaries
from specbook.analysis.paired import Answered, PairedRatios
from specbook.analysis.summaries import Speed
from specbook.records.run import RunRecord
from specbook.stats.estimate import Estimate

COLUMNS = ("load", "target", "tokens_per_s", "against", "speedup", "length")
SPEED: Speed = "output_tokens_per_s"


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
    answered = paired.answered(runs, SPEED)
    for (load, target), cell in base.groupby(["load", "target"], sort=False):
        own = gains[(gains["load"] == load) & (gains["target"] == target) & (gains["method"] != "baseline")]
        drafted = lengths[(lengths["load"] == load) & (lengths["target"] == target)]
        other = base[(base["load"] == load) & (base["target"] == first)]
        rows.append(
            {"load": load, "target": target,
             "tokens_per_s": float(np.exp(np.log(cell["output_tokens_per_s"]).mean())),
             "against": None if target == first else _against(cell, other, answered),
             "speedup": speedup.over_domains(own) if len(own) else None,
             "length": acceptance.macro(list(drafted["length"])) if len(drafted) else None}
        )  # fmt: skip
    return summaries.frame(rows, COLUMNS)


def _against(cell: pd.DataFrame, other: pd.DataFrame, answered: Answered) -> Estimate | None:
    """Speed over the other's, both measured in one round, the geometric mean of the domains."""
    parts = [
        speedup.ratio(both, SPEED, answered)
        for domain, own in cell.groupby("domain", sort=False)
        if len(both := speedup.pairs(own, other[other["domain"] == domain], SPEED))
    ]
    return PairedRatios.mean(parts).estimate() if parts else None
