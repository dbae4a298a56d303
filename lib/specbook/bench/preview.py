"""What a campaign would do, and about how long it would take: nothing is started."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from specbook import engine, records
from specbook.bench import campaign, duration, experiments, resources
from specbook.bench import lossless_check as lossless_check
from specbook.bench.hardware import detect
from specbook.config import AnyPlan, order
from specbook.config.chapter import Experiment
from specbook.engine.fleet import at_once
from specbook.records import machine_rule
from specbook.records.machine_rule import Machine
from specbook.records.run import RunRecord


class Preview(NamedTuple):
    """What a campaign would do."""

    lines: list[str]
    """The servers' command lines and the titles of experiments."""
    counted: str
    """How many points, checks and experiments, and an estimate of their time."""
    problem: str | None = None
    """Why it would be refused."""


def preview(plans: Sequence[AnyPlan], since: datetime | None = None, replicate: bool = False) -> Preview:
    """What is missing of these plans on this machine; see `campaign.measure`."""
    here = detect()
    todo = campaign.missing(plans, here, since, replicate)
    servers = [shlex.join(engine.of(p.target).command(p.target, p.speculation, 8000)) for p in todo]
    others = [asked for plan in plans for asked in experiments.missing(plan, here, since)]
    checks = sum(len(lossless_check.missing(sweep, here)) for plan in plans for sweep in plan.parts())
    points = sum(len(plan.points()) for plan in plans)
    counted = f"{len(todo)} points to measure, {points - len(todo)} on disk or shared between chapters"
    what = machine_rule.load(plans[0].hardware)  # of a machine that is not this one nothing was measured here
    done = records.load(here.id) if (todo or others) and what.fits(here) else []
    if todo:
        counted += f"; {duration.forecast(list(order.rounds(todo, at_once)), done, what)}"
    counted += f"; and {checks} lossless checks of four servers each" * bool(checks)
    counted += f"; and {_experiments(others, done, what)}" * bool(others)
    lines = list(dict.fromkeys([*servers, *(asked.title for asked in others)]))
    return Preview(lines, counted, resources.few_requests(todo))


def _experiments(asked: Sequence[Experiment], done: Sequence[RunRecord], what: Machine) -> str:
    """How many, and the time of those that say what they are about to do."""
    works = [work for one in asked if (work := experiments.work(one)) is not None]
    told = f"{len(asked)} experiments to run"
    if not works:
        return told
    which = "" if len(works) == len(asked) else f" of {len(works)} of them"
    found = duration.of_experiments(works, done, what)
    return f"{told}; an estimate{which}, by the {found.points} parts of their windows: {found}"
