"""What a campaign would do, how long it would take and what it would cost: nothing is started.

Times are those of like points on this machine, failing that a datasheet's.
"""

import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from specbook import engine, records
from specbook.bench import campaign, experiments, lossless_check, resources
from specbook.bench.experiments import Work
from specbook.bench.hardware import detect
from specbook.config import AnyPlan, machines, order
from specbook.config.chapter import Experiment
from specbook.config.machines import Machine
from specbook.config.schema import Arm, Point, resolve_model
from specbook.engine.fleet import at_once
from specbook.errors import EngineError
from specbook.records.run import RunRecord

ANY = Machine()
"""A machine of which nothing is known."""


class Preview(NamedTuple):
    """What a campaign would do."""

    lines: list[str]
    """The servers' command lines, the titles of experiments, and what each server keeps in memory."""
    counted: str
    """How many points, checks and experiments, and an estimate of their time."""
    problem: str | None = None
    """Why it would be refused."""


def preview(plans: Sequence[AnyPlan], since: datetime | None = None, replicate: bool = False) -> Preview:
    """What is missing of these plans on this machine; see `campaign.measure`."""
    here = detect()
    todo = campaign.missing(plans, here, since, replicate)
    servers = [shlex.join(engine.for_target(p.target).command(*p.arm, 8000)) for p in todo]
    others = [asked for plan in plans for asked in experiments.missing(plan, here, since)]
    checks = sum(len(lossless_check.missing(sweep, here)) for plan in plans for sweep in plan.parts())
    points = sum(len(plan.points()) for plan in plans)
    counted = f"{len(todo)} points to measure, {points - len(todo)} on disk or shared between chapters"
    machine = machines.read(plans[0].hardware)  # records of this machine say nothing of another
    done = records.load(here.id) if (todo or others) and machine.fits(here.kind, here.gpu_name) else []
    if todo:
        counted += f"; {forecast([work_of(order.rounds(todo, _capacity))], done, machine)}"
    counted += f"; and {checks} lossless checks of four servers each" * bool(checks)
    counted += f"; and {_experiments(others, done, machine)}" * bool(others)
    lines = list(dict.fromkeys([*servers, *(asked.title for asked in others), *resources.lines(plans)]))
    return Preview(lines, counted, campaign.refusal(plans, todo))


def _capacity(arms: Sequence[Arm]) -> int:
    """As `fleet.at_once`; one server where their engine is not installed, since most take all the memory."""
    try:
        return at_once(arms)
    except EngineError:
        return 1


def _experiments(asked: Sequence[Experiment], done: Sequence[RunRecord], machine: Machine) -> str:
    """How many, and the time of those that say what they are about to do."""
    works = [work for one in asked if (work := experiments.work(one)) is not None]
    counted = f"{len(asked)} experiments to run"
    if not works:
        return counted
    which = "" if len(works) == len(asked) else f" of {len(works)} of them"
    time = forecast(works, done, machine)
    return f"{counted}; an estimate{which}, by the {time.points} parts of their windows: {time}"


class Forecast(NamedTuple):
    """How long, what that stands on, and what it costs."""

    seconds: float
    points: int
    measured: int
    """Points like which one was measured on this machine."""
    computed: int
    """Points by the datasheet of the machine that the plan is for."""
    starts: int
    start_s: float | None
    """One server's start; None where none was timed and none is assumed."""
    price: str = ""
    """In words; empty where machine.yaml names no accelerator."""

    def __str__(self) -> str:
        estimated = self.measured + self.computed
        if not estimated:
            return "no estimate, since nothing like it was measured on this machine"
        part = "" if estimated == self.points else f" for {estimated} of them, the others being new here"
        starts = "" if self.start_s is not None else f", without {self.starts} starts of servers"
        price = f"; {self.price}" if self.price else ""
        hours, minutes = f"{self.seconds / 3600:.1f} h", f"{max(1, round(self.seconds / 60))} min"
        long = hours if self.seconds >= 2 * 3600 else minutes
        like = "by what like points took on this machine"
        sheet = (
            "by the datasheet's memory: answers at their cap, no draft accepted, "
            f"{resources.START_S / 60:.0f} min a start, checks left out"
        )
        basis = f"{self.measured} of them {like}, {self.computed} {sheet}" if self.measured else sheet
        return f"about {long}{part}{starts}, {basis if self.computed else like}{price}"


def work_of(rounds: Iterable[order.Together]) -> Work:
    """The rounds' points, and the starts of their servers."""
    stages = [stage for together in rounds for stage in together]
    starts = sum(len(stage.servers) for stage in stages)
    return Work(starts, [point for stage in stages for point in stage.points])


def forecast(works: Iterable[Work], done: Iterable[RunRecord], machine: Machine = ANY) -> Forecast:
    """What rounds or experiments will take.

    Args:
        works: `work_of` rounds; an experiment's windows are taken for points.
        done: records of the machine that will measure them; none where that is another one.
        machine: which that is: what was not measured is taken from its datasheet.

    Returns:
        Medians over the most alike points, request for request: the same but for the restart, else with other
        prompts, else of another model of the very same shape.
    """
    works = list(works)
    points, starts = [point for work in works for point in work.points], sum(work.starts for work in works)
    good = [run for run in done if run.measurement is not None]
    each_s_by_name: dict[Hashable, list[float]] = {}
    for run in good:
        each_s = run.measurement.throughput.duration_s / run.point.load.num_requests
        for name in _names(run.point):
            each_s_by_name.setdefault(name, []).append(each_s)
    like = [_expected(point, each_s_by_name) for point in points]
    new = [point for point, expected in zip(points, like, strict=True) if expected is None]
    sheet = [resources.seconds(machine, point) for point in new] if machine.peak else []
    measured, computed = ([one for one in durations_s if one is not None] for durations_s in (like, sheet))
    start_s = _start_s(good) or (resources.START_S if computed else None)
    seconds = sum(measured) + sum(computed) + starts * (start_s or 0.0)
    price = ""
    if machine.memory_bytes is not None:
        devices = max((machine.devices_for(one.target.tensor_parallel_size) for one in points), default=1)
        price = f"{devices} x {machine.title}, {resources.dollars(machine, devices, seconds / 3600)}"
    return Forecast(seconds, len(points), len(measured), len(computed), starts, start_s, price)


def _names(point: Point) -> Iterator[Hashable]:
    """The point without its restart, and without its prompts too; then with its models' shape alone: the most
    alike first."""
    target, how, asked = point.target, point.speculation, point.traffic
    load = point.load.concurrency, point.load.request_rate_per_s, asked.max_tokens
    for models in (target.model, repr(how)), (_shape(target.model), how.label if how else None):
        served = (*models, target.dtype, target.execution, *load)
        yield (*served, asked.domain, asked.prompts)
        yield served


@cache
def _shape(model: str) -> str:
    """What the model's configuration says; its name where there is none here."""
    config = Path(resolve_model(model), "config.json")
    return config.read_text(encoding="utf-8") if config.is_file() else model


def _expected(point: Point, each_s_by_name: Mapping[Hashable, list[float]]) -> float | None:
    """Its window, and its warm-up as if that went as fast."""
    each = next((median(each_s_by_name[name]) for name in _names(point) if name in each_s_by_name), None)
    return None if each is None else each * (point.load.num_requests + point.load.num_warmups)


def _start_s(good: Iterable[RunRecord]) -> float | None:
    """From the stamp in a round's id to its first point, by the servers that were started in between.

    Those are all of its arms on a CPU, and one where an engine takes all the memory. Records from before
    rounds timed none.
    """
    rounds: dict[str, list[RunRecord]] = {}
    for run in good:
        rounds.setdefault(run.round.id, []).append(run)
    starts_s = []
    for name, runs in rounds.items():
        try:
            began = datetime.fromisoformat(name.partition("-")[0])
        except ValueError:
            continue
        first = min(datetime.fromisoformat(run.started_at) for run in runs)
        arms = len({run.point.arm for run in runs}) if runs[0].hardware.kind == "cpu" else 1
        starts_s.append((first - began).total_seconds() / arms)
    return median(starts_s) if starts_s else None
