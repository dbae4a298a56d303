"""Run a plan: what is missing is measured, what is on disk is not measured again."""

import fcntl
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from tqdm.auto import tqdm

from specbook import bench, lossless_check, paths, provenance, records
from specbook.config import Point
from specbook.engine.fleet import Configuration, Fleet, at_once
from specbook.errors import ConfigError, EngineError, SpecbookError
from specbook.hardware import Hardware, detect, with_peaks
from specbook.plan import Plan, Source
from specbook.records import RunRecord

SERVER_START_WORK = 12.0
"""Starting a server, in the unit of `_work`: about as long as twelve requests one after the other."""

T = TypeVar("T")


def run_or_replay(plan: Plan, source: Source) -> list[RunRecord]:
    """The records of a plan: `hardware` measures what is missing first, `records` only reads.

    Raises:
        ConfigError: if nothing was ever measured for this plan.
        EngineError: if no point could be measured.
    """
    if source == "hardware":
        measure([plan])
    return replay(plan)


def replay(plan: Plan, hardware: Hardware | None = None) -> list[RunRecord]:
    """The newest good record of each of the plan's points, all from one machine and one set of weights.

    This machine's records are taken if it has any for the plan, else those of the machine with the most.
    """
    keys = {point.key for point in plan.points()}
    good = [r for r in records.load() if r.key in keys and r.status == "ok"]
    if not good:
        raise ConfigError(
            f"no record for the {plan.group} plan of {plan.chapter} on {plan.hardware!r}: measure it with "
            f"`specbook run {plan.chapter} --hardware {plan.hardware} --group {plan.group}`"
        )
    here, ids = (hardware or detect()).id, [record.hardware.id for record in good]
    machine = here if here in ids else _most_common(ids)
    newest = {r.key: r for r in _of_one_weights([r for r in good if r.hardware.id == machine])}
    return [newest[point.key] for point in plan.points() if point.key in newest]


def _of_one_weights(oldest_first: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of the newest weights of each model: a model that was trained again is another model."""
    newest: dict[str, str] = {}
    for record in oldest_first:
        newest |= _weights(record)
    return [record for record in oldest_first if _weights(record).items() <= newest.items()]


def _weights(record: RunRecord) -> dict[str, str]:
    speculation = record.point.speculation
    models = {"target": record.point.target.model, "draft": speculation and speculation.model}
    return {f"{role} {models[role]}": sha for role, sha in record.provenance.weights_sha256.items()}


def missing(plans: Sequence[Plan], hardware: Hardware, since: datetime | None = None) -> list[Point]:
    """Points of all plans that this machine has not measured with today's weights, in measuring order.

    Plans are interleaved restart by restart, and a point that two chapters share appears once. Records from
    before `since` (UTC) do not count.
    """
    oldest = since.isoformat() if since else ""
    good = (r for r in records.load(hardware.id) if r.status == "ok" and r.started_at >= oldest)
    done = {_identity(record.key, record.provenance.weights_sha256) for record in good}
    points: dict[str, Point] = {}
    for point in (point for plan in plans for point in plan.points()):
        points.setdefault(point.key, point)  # the first chapter that asks for it owns it
    weights = {key: provenance.weights_sha256(p.target, p.speculation) for key, p in points.items()}
    todo = [point for key, point in points.items() if _identity(key, weights[key]) not in done]
    return [point for group in _servers(todo) for point in group]


def measure(plans: Sequence[Plan], since: datetime | None = None) -> list[RunRecord]:
    """Measure what is `missing`, lossless checks last; each point is on disk before the next one starts.

    Returns:
        The new records, failed ones included.

    Raises:
        ConfigError: if models or prompts cannot be used.
        SpecbookError: if another campaign runs on this machine, or a record cannot be written.
        EngineError: if every point failed, or a lossless check did.
    """
    hardware = detect()
    with _alone():
        groups = _servers(missing(plans, hardware, since))
        if groups:
            hardware = with_peaks(hardware)
        with _progress(groups) as bar:
            made = [
                record
                for together in _together(groups)
                for record in _measure_together(together, hardware, bar)
            ]
        if made and all(record.status == "failed" for record in made):
            raise EngineError(f"all {len(made)} points failed. The last one: {made[-1].reason}")
        for plan in plans:
            lossless_check.measure_missing(plan, hardware)
    return made


def _progress(groups: Sequence[list[Point]]) -> tqdm:
    work = sum(_work(point) for group in groups for point in group) + SERVER_START_WORK * len(groups)
    return tqdm(
        total=math.ceil(work), desc="measuring", disable=not groups, leave=False,
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} < {remaining}",
    )  # fmt: skip


def _measure_together(groups: Sequence[list[Point]], hardware: Hardware, bar: tqdm) -> list[RunRecord]:
    """Measure what these servers measure; each record is on disk before the next point starts."""
    bar.set_description(f"restart {groups[0][0].restart}: starting {len(groups)} servers")
    made = []
    # Closed by name: an interrupt's traceback would else keep the servers running for as long as it is held.
    with closing(_measured(groups, hardware)) as found:
        for record in found:
            records.append(record)
            bar.set_description(f"restart {record.point.restart} {record.point.arm}")
            bar.update(_work(record.point) + (0 if made else SERVER_START_WORK * len(groups)))
            made.append(record)
    return made


def _measured(groups: Sequence[list[Point]], hardware: Hardware) -> Iterator[RunRecord]:
    """Points of servers that are up together, in turns; one that dies is started again."""
    with Fleet([_configuration(group[0]) for group in groups]) as fleet:
        for point in _in_turns(groups):
            try:
                with fleet.running(*_configuration(point)) as server:
                    record = bench.measure(server, point, hardware=hardware)
            except EngineError as error:
                record = bench.failed(point, provenance.portable(str(error)), hardware=hardware)
            yield record


def _configuration(point: Point) -> Configuration:
    return point.target, point.speculation


def _servers(points: Sequence[Point]) -> list[list[Point]]:
    """Neighbours that one server can measure: same restart, target and speculation."""
    order: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda p: p.restart):
        order.setdefault(f"{point.restart} {_configuration(point)!r}", []).append(point)
    return list(order.values())


def _together(groups: Sequence[list[Point]]) -> Iterator[list[list[Point]]]:
    """Servers of one restart, as many as this machine holds."""
    for _, restart in groupby(groups, key=lambda group: group[0].restart):
        left = list(restart)
        size = at_once([_configuration(group[0]) for group in left])
        while left:
            yield left[:size]
            left = left[size:]


def _in_turns(groups: Sequence[list[Point]]) -> Iterator[Point]:
    """The arms of one load and domain after each other, then the next; each time another arm is first."""
    cells: dict[str, list[Point]] = {}
    for point in (point for group in groups for point in group):
        cells.setdefault(f"{point.load!r} {point.traffic!r}", []).append(point)
    for turn, arms in enumerate(cells.values()):
        first = turn % len(arms)
        yield from arms[first:] + arms[:first]


def _work(point: Point) -> float:
    """How long a point takes, up to a constant: batching serves more requests at once, but not for free."""
    load = point.load
    if load.request_rate_per_s is not None:
        return load.num_requests / load.request_rate_per_s
    assert load.concurrency is not None
    return (load.num_requests + load.num_warmups) / load.concurrency**0.5


def _identity(key: str, weights: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return key, tuple(sorted(weights.items()))


def _most_common(values: list[T]) -> T:
    return max(sorted(set(values)), key=values.count)


@contextmanager
def _alone() -> Iterator[None]:
    """Two campaigns on one machine would measure each other."""
    path = paths.build_dir() / "measure.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SpecbookError("another measurement runs on this machine: wait for it, or end it") from error
        yield
