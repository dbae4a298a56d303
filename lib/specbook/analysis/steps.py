"""What a decode step costs, beside the least it could cost, and how busy the machine was."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from specbook.analysis import summaries
from specbook.config import models
from specbook.config.schema import Speculation
from specbook.records.experiment_results import StepTimes
from specbook.records.run import ExperimentRecord, RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import ratios, roofline
from specbook.stats.shape import TargetShape

PARTS = ("target", "arm", "part", "milliseconds")
OPTIONS = ("arm", "option", "length", "estimate")
UNKNOWN = dict.fromkeys(("memory_s", "compute_s", "least_s", "overhead_s", "bound"))


def utilisation(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per closed-loop record: arm, concurrency, domain, busy cores of `cores`, memory, GPU share."""
    rows = []
    for run in RunSet.of(runs).closed:
        assert run.measurement is not None
        point, used = run.point, run.measurement.utilisation.model_dump(exclude={"samples"})
        names = {"arm": str(point.arm), "concurrency": point.load.concurrency, "domain": point.traffic.domain}
        rows.append({**names, "cores": run.hardware.logical_cores, **used})
    return pd.DataFrame(rows)


def busy(used: pd.DataFrame) -> pd.DataFrame:
    """Mean busy percent of the processor (or the GPU) by arm and batch, from `utilisation`.

    Columns: arm, concurrency, `engine`, of all cores, or of the GPU's time where that was read; `client`, the
    load generator, of all cores.
    """
    gpu, cores = used["gpu_utilisation"].notna().any(), used["cores"]
    engine = used["gpu_utilisation"] if gpu else used["engine_cpu_cores"] / cores
    client = 100 * used["client_cpu_cores"].astype(float) / cores
    shares = used.assign(engine=100 * engine.astype(float), client=client)
    return shares.groupby(["arm", "concurrency"])[["engine", "client"]].mean().reset_index()


def decode_steps(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per baseline arm and batch: the measured decode step beside the least it could take.

    Without speculation each step gives a sequence one token, so the median TPOT is the step. Columns:
    arm, execution, concurrency, step_s, memory_s, compute_s, least_s, overhead_s, bound (None where a peak is
    unknown).
    """
    base = RunSet.of(runs).closed.baselines
    pooled, rows = summaries.pooled_requests(base), []
    for (arm, batch), group in pooled.groupby(["arm", "concurrency"], sort=False):
        own = [r for r in base if str(r.point.arm) == arm]
        context = round((group["input_tokens"] + group["output_tokens"] / 2).median())
        step_s = float(group["tpot_s"].median())
        rows.append(
            {
                "arm": arm,
                "execution": own[0].point.target.execution,
                "concurrency": int(batch),
                "step_s": step_s,
                **_least(own, int(batch), context, step_s),
            }
        )
    return pd.DataFrame(rows)


def _least(runs: Sequence[RunRecord], batch: int, context: int, step_s: float) -> dict[str, Any]:
    """The least that a step could take at the median of the runs' measured peaks, which differ by host."""
    target, devices = runs[0].point.target, _devices(runs[0])
    sized = TargetShape.of(target, *models.stored(target))
    if sized is None or devices is None:
        return UNKNOWN
    width = sized.widths
    bytes_per_s, flops_per_s = (
        _median([getattr(run.hardware, name) for run in runs])
        for name in ("peak_bytes_per_s", "peak_flops_per_s")
    )
    cost = roofline.decode_step(
        sized.shape, batch, context, width.dtype_bytes, bytes_per_s, flops_per_s,
        layer_bytes=width.layer_bytes, devices=devices,
    )  # fmt: skip
    if width.quantized and cost.bound != "memory":
        # The peak is of bf16, and narrower numbers may be multiplied faster: then this is no lower bound.
        return UNKNOWN | {"memory_s": cost.memory_s}
    return {
        "memory_s": cost.memory_s, "compute_s": cost.compute_s, "least_s": cost.least_s,
        "overhead_s": cost.overhead_s(step_s), "bound": cost.bound,
    }  # fmt: skip


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return float(np.median(measured)) if measured else None


def _devices(run: RunRecord) -> int | None:
    """Devices that serve the model, in the unit of the record's peaks; None where that is not known."""
    return {
        "cpu": 1,  # the peaks are the whole CPU's
        "neuron": None,  # a rank is a core, the peaks are a chip's
    }.get(run.hardware.kind, run.point.target.tensor_parallel_size)


def parts(results: Iterable[tuple[ExperimentRecord, StepTimes]]) -> pd.DataFrame:
    """Milliseconds of a step by part, of each experiment's first variant: columns PARTS.

    The profiler says the shares; they are laid over the step as it was timed without it.
    """
    rows = []
    for arm, record, result in _named(results):
        first = result.variants[0]
        whole_ms = 1e3 * ratios.geometric_mean_ci(first.step_s).value
        rows += [
            {"target": _target(record), "arm": arm, "part": part, "milliseconds": share * whole_ms}
            for part, share in first.parts.items()
        ]
    return summaries.frame(rows, PARTS)


def options(results: Iterable[tuple[ExperimentRecord, StepTimes]]) -> pd.DataFrame:
    """What each further variant makes of the first one's step: columns OPTIONS.

    `estimate` is a ratio of times over turns; below one, the step is shorter. `length` is the variant's
    tokens a step, which an option of the engine's should not change.
    """
    rows = []
    for arm, _, result in _named(results):
        first, *others = result.variants
        rows += [
            {"arm": arm, "option": other.name, "length": other.length,
             "estimate": ratios.ratio_ci(other.step_s, first.step_s, unit_of_n="turns")}
            for other in others
        ]  # fmt: skip
    return summaries.frame(rows, OPTIONS)


def _target(record: ExperimentRecord) -> str:
    return str(record.experiment.parameters["target"]["name"])


def _named(
    results: Iterable[tuple[ExperimentRecord, StepTimes]],
) -> Iterator[tuple[str, ExperimentRecord, StepTimes]]:
    """Each with what it ran, named with its target where they have several."""
    results = list(results)
    several = len({_target(record) for record, _ in results}) > 1
    for record, result in results:
        given = record.experiment.parameters.get("speculation")
        arm = Speculation.model_validate(given).label if given else "baseline"
        name = f"{_target(record)}, {arm}" if several else arm
        yield name, record, result
