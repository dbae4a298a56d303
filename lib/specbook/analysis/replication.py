"""Speed-ups that other campaigns measured too: the same weights, arm and load, other days or machines; and
how far apart in time the arms of one round were measured.
"""

from collections.abc import Iterable
from datetime import datetime

import pandas as pd

from specbook.analysis import speedup
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet


def speedups(best: pd.Series, shown: Iterable[RunRecord], recorded: Iterable[RunRecord]) -> pd.DataFrame:
    """Rows of `speedups` of the arm, load, domain and weights of `best`, in `recorded` but not in `shown`.

    Their precision may be another: a machine of another kind has the one that is fast there.
    """
    runs = {run.run_id: run for run in shown}
    weights: dict[str, str] = {}
    for run_id in best["records"]:
        weights |= runs[run_id].provenance.weights_sha256
    same = [
        run for run in recorded
        if run.run_id not in runs and run.point.load.label == best["load"]
        and run.point.traffic.domain == best["domain"]
        and run.provenance.weights_sha256.items() <= weights.items()
    ]  # fmt: skip
    table = speedup.speedups(same)
    return table[table["label"] == best["label"]]


def apart_s(runs: Iterable[RunRecord]) -> list[float]:
    """Seconds from each arm with speculation to the nearest baseline of its round, from start to start."""
    starts: dict[tuple[str, str, bool], list[datetime]] = {}
    for run in RunSet.of(runs):
        turn = run.round.id, run.point.cell_key, run.point.speculation is None
        starts.setdefault(turn, []).append(datetime.fromisoformat(run.started_at))
    return [
        min(abs((arm - base).total_seconds()) for base in starts[turn, cell, True])
        for (turn, cell, is_base), arms in starts.items() if not is_base and (turn, cell, True) in starts
        for arm in arms
    ]  # fmt: skip
