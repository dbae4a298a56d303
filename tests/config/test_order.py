"""The order of measuring: seeded, complete, close together, and fair to every arm."""

from collections import Counter
from itertools import pairwise

import pytest

import factories
from specbook.config import order

ARMS = ("compiled", "eager", 1, 3, 5, 7)
CELLS = [(batch, domain) for batch in (1, 8, 32) for domain in ("json", "math", "chat", "code")]


def points(restarts, cells=CELLS, arms=ARMS):
    found = []
    for restart in range(restarts):
        for arm in arms:
            drafted = factories.eagle3(arm) if isinstance(arm, int) else None
            target = factories.target(arm if isinstance(arm, str) else "compiled")
            found += [
                factories.point(drafted, target=target, domain=domain, concurrency=batch, restart=restart)
                for batch, domain in cells
            ]
    return found


def measured(restarts, room, **kinds):
    """The arms in measuring order, a list for each cell and round."""
    turns = []
    for together in order.rounds(points(restarts, **kinds), lambda arms: room):
        cells = {}
        for point in (p for stage in together for p in stage.points):
            cells.setdefault(point.cell_key, []).append(str(point.arm))
        turns += cells.values()
    return turns


def spread(counts, expected):
    """The largest share by which a count is off what chance alone would give on average."""
    assert len(counts) > 1
    return max(abs(n / expected - 1) for n in counts)


@pytest.mark.parametrize("room", [1, 9])
def test_each_arm_is_first_and_follows_others_equally_often(room):
    """Over 100 restarts; with one server at a time a restart is one order, so there are fewer to count."""
    turns = measured(100, room) if room > 1 else [turn for turn in measured(600, 1, cells=CELLS[:1])]
    arms = len(ARMS)
    first = Counter(turn[0] for turn in turns)
    after = Counter(pair for turn in turns for pair in pairwise(turn))
    assert len(first) == arms
    assert len(after) == arms * (arms - 1)
    assert spread(first.values(), len(turns) / arms) < 0.35
    assert spread(after.values(), len(turns) * (arms - 1) / len(after)) < 0.5


def test_in_five_restarts_every_arm_begins_a_turn():
    first = Counter(turn[0] for turn in measured(5, 9))
    assert sum(first.values()) == 5 * len(CELLS)
    assert len(first) == len(ARMS)
    assert max(first.values()) <= 20  # of 60; 10 on average


@pytest.mark.parametrize("room", [1, 2, 3, 4, 6, 9])
def test_every_point_is_measured_and_arms_only_once_a_restart(room):
    wanted = points(2)
    got = [p for together in order.rounds(wanted, lambda arms: room) for s in together for p in s.points]
    assert {p.key for p in got} == {p.key for p in wanted}
    times = Counter(p.key for p in got if p.speculation is not None)
    assert set(times.values()) == {1}


@pytest.mark.parametrize("room", [3, 4, 5])
def test_where_not_all_fit_each_round_holds_its_baselines(room):
    for together in order.rounds(points(2), lambda arms: room):
        (stage,) = together
        assert len(stage.servers) <= room
        assert {"baseline (compiled)", "baseline (eager)"} < {str(p.arm) for p in stage.points}


@pytest.mark.parametrize(("room", "together"), [(12, [2]), (11, [1, 1]), (6, [1, 1])])
def test_each_target_has_a_round_where_only_its_arms_fit(room, together):
    other = factories.target("compiled").model_copy(update={"name": "other", "model": "org/other"})
    modes = {mode: other.model_copy(update={"execution": mode}) for mode in ("compiled", "eager")}
    both = [
        *points(1),
        *(p.model_copy(update={"target": modes[p.target.execution]}) for p in points(1)),
    ]
    rounds = list(order.rounds(both, lambda arms: room))
    assert [len({p.target.name for p in stage.points}) for (stage,) in rounds] == together
    assert {p.key for (stage,) in rounds for p in stage.points} == {p.key for p in both}


def test_targets_take_turns_at_each_load_and_prompts():
    other = factories.target("compiled").model_copy(update={"name": "other", "engine": "llama_cpp"})
    own = [p for p in points(10) if p.target.execution == "compiled"]
    both = [*own, *(p.model_copy(update={"target": other}) for p in own)]
    firsts = Counter()
    for (stage,) in order.rounds(both, lambda arms: 99):
        cells = [(p.load, p.traffic) for p in stage.points]
        size = len(cells) // len(CELLS)
        assert all(len(set(cells[i : i + size])) == 1 for i in range(0, len(cells), size))
        firsts.update(p.target.name for p in stage.points[::size])
    assert min(firsts.values()) > 40  # of 120; 60 on average


def test_what_only_baselines_measure_is_measured_once():
    alone = points(1, cells=[(4, "json")], arms=ARMS[:2])
    got = [p for r in order.rounds([*points(1), *alone], lambda arms: 3) for s in r for p in s.points]
    assert Counter(p.key for p in got if p.load.concurrency == 4) == {p.key: 1 for p in alone}


def test_where_one_fits_a_round_is_one_server_at_a_time():
    rounds = list(order.rounds(points(3), lambda arms: 1))
    assert [len(together) for together in rounds] == [len(ARMS)] * 3
    assert all(len({p.arm for p in stage.points}) == 1 for together in rounds for stage in together)


def test_the_order_is_the_seeds_and_each_restart_has_its_own():
    def names(seed):
        return [p.key for t in order.rounds(points(2), lambda arms: 9, seed) for s in t for p in s.points]

    assert names(0) == names(0) != names(1)
    one, two = measured(2, 9)[:12], measured(2, 9)[12:]
    assert one != two


def test_positions_count_the_arms_of_one_cell():
    (together,) = order.rounds(points(1), lambda arms: 9)
    assert order.positions(together) == [*range(len(ARMS))] * len(CELLS)
