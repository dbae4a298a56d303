"""What a campaign would do, and about how long it would take: nothing is started."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from specbook import engine, records
from specbook.engine.fleet import at_once
from specbook.measure import campaign, experiments, forecast, machine
from specbook.measure import lossless as lossless_check
from specbook.measure.hardware import detect
from specbook.plan import AnyPlan, order


def preview(plans: Sequence[AnyPlan], since: datetime | None = None) -> tuple[list[str], str]:
    """What is missing of these plans on this machine.

    Returns:
        The servers' command lines and the titles of experiments; and a line that counts and estimates.
    """
    here = detect()
    todo = campaign.missing(plans, here, since)
    servers = [shlex.join(engine.of(p.target).command(p.target, p.speculation, 8000)) for p in todo]
    others = [asked.title for plan in plans for asked in experiments.missing(plan, here, since)]
    checks = sum(len(lossless_check.missing(sweep, here)) for plan in plans for sweep in plan.parts())
    points = sum(len(plan.points()) for plan in plans)
    counted = f"{len(todo)} points to measure, {points - len(todo)} on disk or shared between chapters"
    if todo:
        rounds = list(order.rounds(todo, at_once))
        what = machine.load(plans[0].hardware)  # of a machine that is not this one nothing was measured here
        counted += f"; {forecast.forecast(rounds, records.load(here.id) if what.fits(here) else [], what)}"
    counted += f"; and {checks} lossless checks of four servers each" * bool(checks)
    counted += f"; and {len(others)} experiments to run" * bool(others)
    return list(dict.fromkeys([*servers, *others])), counted
