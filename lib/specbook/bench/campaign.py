"""Run a plan: what is missing is measured, what is on disk is not measured again."""

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from specbook import console, paths, records
from specbook.bench import (
    experiments,
    loadgen,
    lossless_check,
    measure_point,
    plan_notes,
    provenance,
    resources,
)
from specbook.bench.hardware import detect, refuse_another, with_peaks
from specbook.config import AnyPlan, Source, machines, order
from specbook.config.schema import Point
from specbook.engine.fleet import Fleet, at_once
from specbook.errors import ConfigError, EngineError, SpecbookError
from specbook.records.run import ExperimentRecord, Hardware, Round, RunRecord, identity
from specbook.records.run_set import RunSet

SERVER_START_WORK = 12.0
"""Starting a server, in the unit of `_work`: about as long as twelve requests one after the other."""


def run_or_replay(plan: AnyPlan, source: Source) -> RunSet:
    """The runs of a plan: `hardware` measures what is missing first, and gives this machine's; `records` only
    reads, and gives those that `records.replay` chooses.

    Raises:
        ConfigError: if nothing was ever measured for this plan.
        EngineError: if no point could be measured.
    """
    if source == "hardware":
        plan_notes.say(plan.parts())
        measure([plan])
    return records.replay(plan, here(source))


def here(source: Source) -> str | None:
    """Id of this machine where a page is measured; None where it is replayed, and any machine will do."""
    return detect().id if source == "hardware" else None


def missing(
    plans: Sequence[AnyPlan], hardware: Hardware, since: datetime | None = None, replicate: bool = False
) -> list[Point]:
    """Points of all plans that this machine has still to measure, with today's engine, weights and prompts.

    A point that two chapters share appears once. An arm counts as measured only beside its baselines, in one
    round: where an arm is missing, its baselines are measured again. Records from before `since` (UTC) do not
    count; to `replicate`, neither do those of other hosts.
    """
    oldest = since.isoformat() if since else ""
    done: dict[str, set[str]] = {}
    for record in records.load(hardware.id):
        elsewhere = replicate and record.hardware.host != hardware.host
        if record.status == "ok" and record.started_at >= oldest and not elsewhere:
            done.setdefault(identity(record.point, record.provenance), set()).add(record.round.id)
    points: dict[str, Point] = {}
    for point in (point for plan in plans for point in plan.points()):
        points.setdefault(point.key, point)  # the first chapter that asks for it owns it
    origins = {arm: provenance.today(*arm) for arm in dict.fromkeys(point.arm for point in points.values())}
    held: dict[str, set[str]] = {}
    for key, point in points.items():
        prompts = {"prompts_sha256": provenance.prompts_sha256(point.traffic)}
        held[key] = done.get(identity(point, origins[point.arm].model_copy(update=prompts)), set())
    todo: set[str] = set()
    for turn in order.turns(points.values()):
        base = [p.key for p in turn if p.speculation is None]
        beside = set.intersection(*(held[key] for key in base)) if base else None
        arms = [p.key for p in turn if p.speculation is not None]
        unpaired = [key for key in arms if not (held[key] if beside is None else held[key] & beside)]
        todo |= {*unpaired, *(key for key in base if unpaired or not held[key])}
    return [point for key, point in points.items() if key in todo]


def measure(
    plans: Sequence[AnyPlan], since: datetime | None = None, *, replicate: bool = False, dirty: bool = False
) -> list[RunRecord | ExperimentRecord]:
    """Measure what is `missing`, then lossless checks and experiments; each is kept before the next starts.

    Args:
        plans: of one machine.
        since: UTC; see `missing`.
        replicate: measure the points again that other hosts of this machine have measured.
        dirty: put records into the project's own `results/` even if its code differs from its commit.

    Returns:
        The new records, failed ones included.

    Raises:
        ConfigError: if models or prompts cannot be used, a plan is for another kind of machine, a closed loop
            has too few requests, a cap would end most answers, an experiment lacks its cluster, or what is
            missing would be measured with uncommitted changes.
        SpecbookError: if another campaign runs on this machine, or a record cannot be written.
        EngineError: if every point failed, or a lossless check did.
    """
    hardware, sweeps = detect(), [sweep for plan in plans for sweep in plan.parts()]
    _refuse_impossible(plans, hardware, replicate)
    with _alone():
        with console.busy("reading weights and what is on disk"):
            todo = missing(plans, hardware, since, replicate)
            if problem := refusal(plans, todo):
                raise ConfigError(problem)
            if not dirty and (
                todo
                or any(experiments.missing(plan, hardware, since) for plan in plans)
                or any(lossless_check.missing(sweep, hardware) for sweep in sweeps)
            ):
                provenance.refuse_uncommitted()
            rounds = list(order.rounds(todo, at_once))
        if rounds:
            records.check_writable(hardware.id)
            with console.busy("finding out how fast this machine can be"):
                hardware = with_peaks(hardware)
        made = _measure_rounds(rounds, hardware)
        for sweep in sweeps:
            lossless_check.measure_missing(sweep, hardware)
        tried = [record for plan in plans for record in experiments.measure(plan, hardware, since)]
        records.pack(hardware.id)
    return [*made, *tried]


def refusal(plans: Sequence[AnyPlan], todo: Sequence[Point]) -> str | None:
    """Why these points of the plans would not show what they name: windows that are not full, answers cut."""
    sweeps = (sweep for plan in plans for sweep in plan.parts())
    return resources.few_requests(todo) or plan_notes.low_caps(sweeps, todo)


def _refuse_impossible(plans: Sequence[AnyPlan], hardware: Hardware, replicate: bool) -> None:
    """Raise ConfigError if this machine cannot run the plans."""
    if replicate and hardware.host is None:
        raise ConfigError(
            "this machine does not say which host it is (no boot id): measure again with --since"
        )
    for plan in plans:
        wanted = machines.read(plan.hardware)
        if not wanted.fits(hardware.kind, hardware.gpu_name):  # else records would bear another's name
            want = f"{wanted.kind} {wanted.name}" if wanted.name != "*" else wanted.kind
            raise ConfigError(
                f"params/{machines.folder(plan.hardware)} is for {want}, and this machine is {hardware.id}: "
                "choose another --hardware, or copy the folder and say in its machine.yaml which machines it "
                "is for"
            )
        resources.refuse(plan, hardware)
        experiments.check(plan)
        if why := experiments.unavailable(plan):
            raise ConfigError(why)


def _measure_rounds(rounds: Sequence[order.Together], hardware: Hardware) -> list[RunRecord]:
    """Measure the rounds of a campaign; EngineError if every point failed."""
    stages, made = [stage for together in rounds for stage in together], []
    work = sum(SERVER_START_WORK * len(stage.servers) + sum(map(_work, stage.points)) for stage in stages)
    with tqdm(
        total=math.ceil(work), desc="measuring", disable=not rounds, leave=False,
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} < {remaining}",
    ) as bar:  # fmt: skip
        for together in rounds:
            refuse_another(hardware, detect())
            made += _measure_round(together, hardware, bar)
    if made and all(record.status == "failed" for record in made):
        raise EngineError(f"all {len(made)} points failed. The last one: {made[-1].reason}")
    return made


def _measure_round(together: order.Together, hardware: Hardware, bar: tqdm) -> list[RunRecord]:
    """Measure one round; each record is on disk before the next point starts. What dies is started again."""
    restart = together[0].points[0].restart
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{restart}-{secrets.token_hex(2)}"
    places, made = iter(order.positions(together)), []
    for stage in together:
        bar.set_description(f"restart {restart}: starting {len(stage.servers)} servers")
        start = SERVER_START_WORK * len(stage.servers)
        with Fleet(stage.servers) as fleet:
            for point in stage.points:
                own = Round(id=name, position=next(places), seed=order.SEED)
                where = {"hardware": hardware, "together": own}
                try:
                    with fleet.running(point.arm) as server:
                        record = measure_point.measure(server, point, **where)
                except EngineError as error:
                    record = measure_point.failed(point, paths.portable(str(error)), **where)
                records.append(record)
                made.append(record)
                bar.set_description(f"restart {restart} {record.point.arm}")
                bar.update(_work(record.point) + start)
                start = 0.0
    return made


def _work(point: Point) -> float:
    """How long a point takes, up to a constant: batching serves more requests at once, but not for free."""
    load = point.load
    if load.request_rate_per_s is not None:
        return load.num_requests / load.request_rate_per_s
    return (load.num_requests + load.num_warmups) / load.concurrency**0.5


@contextmanager
def _alone() -> Iterator[None]:
    """Two campaigns on one machine would measure each other, whoever started them from whichever checkout."""
    lock = FileLock(paths.machine_lock(), blocking=False, mode=0o666)
    try:
        lock.acquire()
    except Timeout as error:
        raise SpecbookError("another measurement runs on this machine: wait for it, or end it") from error
    except OSError as error:
        raise SpecbookError(f"cannot lock {paths.machine_lock()}: {error.strerror}. Remove it") from error
    try:
        yield
    finally:
        loadgen.dismiss()  # a notebook's kernel lives on, and would keep it
        lock.release()
