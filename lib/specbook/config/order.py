"""Order of measurement, decided in one place for all plans of a campaign.

A machine's speed drifts over minutes, so arms that are compared are measured close together, in an order that
favours none: a seeded random permutation of the arms, of all targets, for every load and every domain of
every restart.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from random import Random
from typing import NamedTuple

from specbook.config.schema import Arm, Load, Point, Traffic

SEED = 0
Capacity = Callable[[Sequence[Arm]], int]
"""How many of these servers the machine holds at once."""


class Stage(NamedTuple):
    """Servers that are up together, and what they measure, in this order."""

    servers: tuple[Arm, ...]
    points: tuple[Point, ...]


Together = tuple[Stage, ...]
"""The stages of one round: its arms are compared with one another."""


def rounds(points: Sequence[Point], capacity: Capacity, seed: int = SEED) -> Iterator[Together]:
    """The rounds of a campaign, restart by restart.

    Where all servers of a restart fit, they are one round of one stage, and the arms of each load and domain
    take turns. Where only each target's fit, each target has its round. Where fewer fit, arms are dealt at
    random into rounds that each hold the baselines too. Where not even that fits (one server on a GPU), the
    round is the whole restart, server after server.
    """
    for restart, group in groupby(sorted(points, key=lambda p: p.restart), key=lambda p: p.restart):
        of_restart, rng = list(group), Random(f"{seed}-{restart}")
        arms = list(dict.fromkeys(point.arm for point in of_restart))
        rng.shuffle(arms)
        base = [arm for arm in arms if arm.speculation is None]
        drafting = [arm for arm in arms if arm.speculation is not None]
        # Each target's, compiled or eager: these are compared with one another.
        names = dict.fromkeys(arm.target.name for arm in arms)
        own = [[arm for arm in arms if arm.target.name == name] for name in names]
        room = capacity(arms)
        if room >= len(arms):
            yield (_stage(of_restart, arms, rng),)
        elif room >= max(map(len, own)) and len(own) > 1:
            yield from ((_stage(of_restart, of_target, rng),) for of_target in own)
        elif len(base) < room:
            hands = -(-len(drafting) // (room - len(base)))  # as few as fit, of nearly equal size
            for hand in range(hands):
                dealt = drafting[hand::hands]
                beside = _beside(dealt, of_restart, first=hand == 0)
                yield (_stage(beside, [*base, *dealt], rng),)
        else:
            yield tuple(_stage(of_restart, arms[i : i + room], rng) for i in range(0, len(arms), room))


def turns(points: Iterable[Point]) -> list[list[Point]]:
    """The points of each load and prompts in one restart: arms that are compared with one another."""
    by_cell: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        by_cell.setdefault((point.cell_key, point.restart), []).append(point)
    return list(by_cell.values())


def positions(together: Together) -> list[int]:
    """For each point of a round, in measuring order: its place among the arms of its load and prompts."""
    measured: Counter[str] = Counter()
    places = []
    for point in (point for stage in together for point in stage.points):
        places.append(measured[point.cell_key])
        measured[point.cell_key] += 1
    return places


def _beside(dealt: Sequence[Arm], points: Sequence[Point], first: bool) -> list[Point]:
    """The hand's points and their baselines'; what baselines measure alone goes with the first hand."""
    drafting = [p for p in points if p.speculation is not None]
    drawn = [p for p in drafting if p.arm in dealt]
    cells, all_cells = {p.cell_key for p in drawn}, {p.cell_key for p in drafting}
    alone = [p for p in points if p.speculation is None and first and p.cell_key not in all_cells]
    return [*drawn, *alone, *(p for p in points if p.speculation is None and p.cell_key in cells)]


def _stage(points: Sequence[Point], arms: Sequence[Arm], rng: Random) -> Stage:
    asked: dict[tuple[Load, Traffic], list[Point]] = {}
    for point in points:
        if point.arm in arms:
            asked.setdefault((point.load, point.traffic), []).append(point)
    cells = list(asked.values())
    rng.shuffle(cells)
    for turn in cells:
        rng.shuffle(turn)
    return Stage(tuple(arms), tuple(point for turn in cells for point in turn))
