"""How long a plan will take: by what like points took on this machine, so far as any were measured."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple

from specbook.plan.order import Together
from specbook.plan.schema import Point
from specbook.records.run import RunRecord

STAMP = "%Y%m%dT%H%M%SZ"
"""A round's id begins with the time at which its servers were about to start."""


class Forecast(NamedTuple):
    """How long, and of how much of the plan that is known."""

    seconds: float
    points: int
    known: int
    """Points like which one was measured."""
    starts: int
    start_s: float | None
    """One server's start; None where none was timed."""

    def __str__(self) -> str:
        if not self.known:
            return "no estimate, since nothing like it was measured on this machine"
        minutes = f"about {max(1, round(self.seconds / 60))} min"
        part = "" if self.known == self.points else f" for {self.known} of them, the others being new here"
        starts = "" if self.start_s is not None else f", without {self.starts} starts of servers"
        return f"{minutes}{part}{starts}, by what like points took on this machine"


def forecast(rounds: Sequence[Together], done: Iterable[RunRecord]) -> Forecast:
    """What these rounds will take.

    Args:
        rounds: of `plan.order`.
        done: this machine's records.

    Returns:
        Medians over the most alike points: the same but for the restart, else with other prompts.
    """
    good = [run for run in done if run.measurement is not None]
    took: dict[Hashable, list[float]] = {}
    for run in good:
        for name in _names(run.point):
            took.setdefault(name, []).append(_seconds(run))
    points = [point for together in rounds for stage in together for point in stage.points]
    found = [seconds for point in points if (seconds := _expected(point, took)) is not None]
    starts = sum(len(stage.servers) for together in rounds for stage in together)
    start_s = _start_s(good)
    return Forecast(sum(found) + starts * (start_s or 0.0), len(points), len(found), starts, start_s)


def _names(point: Point) -> tuple[Hashable, Hashable]:
    """The point without its restart, and without its prompts too: the most alike first."""
    served = point.target.model, point.target.dtype, point.target.execution, repr(point.speculation)
    load = (*served, repr(point.load), point.traffic.max_tokens)
    return (*load, point.traffic.domain, point.traffic.prompts), load


def _expected(point: Point, took: Mapping[Hashable, list[float]]) -> float | None:
    return next((median(took[name]) for name in _names(point) if name in took), None)


def _seconds(run: RunRecord) -> float:
    """Its window, and its warm-up as if that went as fast."""
    assert run.measurement is not None
    load = run.point.load
    return run.measurement.throughput.duration_s * (1 + load.num_warmups / load.num_requests)


def _start_s(good: Iterable[RunRecord]) -> float | None:
    """From a round's stamp to its first point, by the servers that were started in between.

    Those are all of its arms on a CPU, and one where an engine takes all the memory. Records from before
    rounds timed none.
    """
    rounds: dict[str, list[RunRecord]] = {}
    for run in good:
        rounds.setdefault(run.round.id, []).append(run)
    found = []
    for name, runs in rounds.items():
        if (began := _began(name)) is not None:
            first = min(datetime.fromisoformat(run.started_at) for run in runs)
            arms = len({run.point.arm for run in runs}) if runs[0].hardware.kind == "cpu" else 1
            found.append((first - began).total_seconds() / arms)
    return median(found) if found else None


def _began(round_id: str) -> datetime | None:
    try:
        return datetime.strptime(round_id.partition("-")[0], STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
