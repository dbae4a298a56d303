"""Speed-ups that other campaigns measured too: the same weights, arm and load, other days or machines."""

from collections.abc import Iterable

import pandas as pd

from specbook.analysis import speedup
from specbook.records.run import RunRecord


def of(best: pd.Series, shown: Iterable[RunRecord], kept: Iterable[RunRecord]) -> pd.DataFrame:
    """Rows of `speedups` of the arm, load, domain and weights of `best`, in `kept` but not in `shown`."""
    runs = {run.run_id: run for run in shown}
    weights: dict[str, str] = {}
    for run_id in best["records"]:
        weights |= runs[run_id].provenance.weights_sha256
    same = [
        run for run in kept
        if run.run_id not in runs and run.point.load.label == best["load"]
        and run.point.traffic.domain == best["domain"] and run.point.target.dtype == best["dtype"]
        and run.provenance.weights_sha256.items() <= weights.items()
    ]  # fmt: skip
    table = speedup.speedups(same)
    return table[table["label"] == best["label"]]
