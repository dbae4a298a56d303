"""Acceptance played at given rates: what a step costs, the speed-up that follows, whether both agree."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook import records
from specbook.analysis import speedup, summaries
from specbook.config.schema import Speculation
from specbook.records.experiment_results import AcceptanceComparison, TimedArm
from specbook.records.run import ExperimentRecord, RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import ratios

K = "num_speculative_tokens"
MAP = ("load", "concurrency", "method", K, "step_s", "price", "played", "busy", "drafting_busy")
COMPARED = ("method", "domain", "concurrency", "set_length", "real_length", "played_length", "step", "spread")
TAIL = 90
"""Percentile of the requests' TPOT whose distance from the median is their spread: too few for p99."""


def of_shapes() -> RunSet:
    """Good records of random weights on an accelerator, of the machine that has most of them."""
    good = [run for run in records.load() if run.status == "ok" and run.point.target.load_format == "dummy"]
    counted = Counter(run.hardware.id for run in good if run.hardware.kind != "cpu")
    most = max(counted, key=counted.__getitem__, default=None)
    return RunSet(run for run in good if run.hardware.id == most)


def shape_maps() -> dict[str, pd.DataFrame]:
    """`map_of` each of these shapes, by its name."""
    groups: dict[str, list[RunRecord]] = {}
    for run in of_shapes():
        groups.setdefault(run.point.target.name, []).append(run)
    return {name: map_of(own) for name, own in sorted(groups.items())}


def map_of(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per load, method and K, of one target on one machine. Columns MAP:

    step_s is the baseline's step in seconds; `price` an arm's step over it, an Estimate over restarts: as
    many tokens must a step yield to break even, whatever is accepted. `played` is a list of (tokens a step
    as the engine counted them, speed-up over the baseline as an Estimate), one for each set of rates, the
    highest first. `busy` and `drafting_busy` are the shares of time that a kernel ran on the GPU, or NaN.
    """
    good = RunSet.of(runs).closed
    if not good:
        return summaries.frame([], MAP)
    used = [run.measurement.utilisation.gpu_utilisation for run in good]
    counted = [run.measurement.spec_decode for run in good]
    steps = summaries.throughput(good).assign(
        busy=[np.nan if share is None else share for share in used],
        length=[1 + one.num_accepted_tokens / one.num_drafts if one else 1.0 for one in counted],
    )
    gains = speedup.speedups(good).set_index(["load", "arm"])["estimate"]
    rows = []
    for load, cell in steps.sort_values("concurrency", kind="stable").groupby("load", sort=False):
        plain = cell[cell[K] == 0]
        base = plain.groupby("restart")["step_s"].median()
        for (method, k), group in cell[cell[K] > 0].groupby(["method", K], sort=True):
            own_steps = np.exp(np.log(group["step_s"]).groupby(group["restart"]).mean())
            both = own_steps.index.intersection(base.index)
            if both.empty:
                continue
            arms = group.groupby("arm", sort=False)["length"].mean().sort_values(ascending=False)
            brought = [(length, gains.get((load, arm))) for arm, length in arms.items()]
            rows.append(
                {"load": load, "concurrency": int(group["concurrency"].iloc[0]), "method": method, K: k,
                 "step_s": float(base.median()), "price": ratios.ratio_ci(own_steps[both], base[both]),
                 "played": [(length, gain) for length, gain in brought if gain is not None],
                 "busy": plain["busy"].mean(), "drafting_busy": group["busy"].mean()}
            )  # fmt: skip
    return summaries.frame(rows, MAP)


def comparison(results: Iterable[tuple[ExperimentRecord, AcceptanceComparison]]) -> pd.DataFrame:
    """One row per experiment and batch (COMPARED): tokens a step that were set, and of both servers; and
    Estimates over turns of the played over the real server's step, and of what the requests' TPOT has as
    `spread`: its TAIL percentile over its median, which asks of no two servers that they accept alike.
    """
    rows = []
    for record, result in results:
        given = record.experiment.parameters
        method = Speculation.model_validate(given["speculation"]).label
        for pair in result.pairs:
            real, played = pair.real, pair.played
            rows.append(
                {"method": method, "domain": given["domain"], "concurrency": pair.concurrency,
                 "set_length": 1 + sum(result.rates), "real_length": 1 + sum(real.rates),
                 "played_length": 1 + sum(played.rates),
                 "step": ratios.ratio_ci(played.step_s, real.step_s, unit_of_n="turns"),
                 "spread": ratios.ratio_ci(_spread(played), _spread(real), unit_of_n="turns")}
            )  # fmt: skip
    return summaries.frame(rows, COMPARED)


def _spread(server: TimedArm) -> list[float]:
    return [float(np.percentile(turn, TAIL) / np.median(turn)) for turn in server.tpot_s]
