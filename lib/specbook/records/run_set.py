"""The runs of a plan, chosen by one rule for every page, and the tables that are made of them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import pandas as pd

from specbook.config import AnyPlan, load, machines
from specbook.errors import ConfigError
from specbook.records import store
from specbook.records.run import ExperimentRecord, RunRecord, engine

P = ParamSpec("P")
T = TypeVar("T")
SETS = 8
"""How many replayed plans are kept with their tables: several pages show one."""


def current(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """The good records that count, in the order given. Asked again of its own answer, it gives the same.

    1. Of each model the newest weights, of each prompt file the newest prompts, of each engine on a machine
       the newest version: what was trained, edited or upgraded since is another thing.
    2. Of an arm with speculation the newest record, one whose round has a baseline before one without.
    3. Of a baseline the newest record of each round that arms were taken from, since ratios pair within a
       round; where no arm was, the newest.
    """
    given = list(runs)
    good = _of_today(given)
    # What an arm and its baseline share.
    turns = {
        id(run): (run.hardware.id, run.kind, run.point.cell_key, run.point.restart, run.round.id)
        for run in good
    }
    baselines = [run for run in good if run.point.speculation is None]
    paired = {turns[id(run)] for run in baselines}
    arms = [run for run in good if run.point.speculation is not None]
    arms = list({_name(run): run for run in sorted(arms, key=lambda r: turns[id(r)] in paired)}.values())
    wanted = {turns[id(run)] for run in arms}
    counterparts = {(_name(run), turns[id(run)]): run for run in baselines if turns[id(run)] in wanted}
    held = {name for name, _ in counterparts}
    alone = {_name(run): run for run in baselines if _name(run) not in held}
    counts = {id(run) for run in (*arms, *counterparts.values(), *alone.values())}
    return [run for run in given if id(run) in counts]


def by_host(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """The `current` records of each host that measured every point, the newest host first.

    Records from before hosts were kept count as one host's.
    """
    newest = _of_today(runs)
    points, each = {_name(run) for run in newest}, dict[str | None, list[RunRecord]]()
    for run in newest:
        own = each.pop(run.hardware.host, [])
        each[run.hardware.host] = [*own, run]  # the host that measured last comes last
    return [current(own) for own in reversed(each.values()) if {_name(run) for run in own} == points]


def _of_today(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Good records of the newest weights, prompts and engine, oldest first."""
    return of_one_world(sorted((r for r in runs if r.status == "ok"), key=lambda r: r.started_at), _facts)


def _name(run: RunRecord) -> tuple[str, ...]:
    return run.hardware.id, run.kind, run.key


def of_one_world(oldest_first: Sequence[T], facts: Callable[[T], dict[tuple[str, ...], str]]) -> list[T]:
    """Records whose facts are still true: no later record says otherwise."""
    newest: dict[tuple[str, ...], str] = {}
    for record in oldest_first:
        newest |= facts(record)
    return [record for record in oldest_first if facts(record).items() <= newest.items()]


def _facts(run: RunRecord) -> dict[tuple[str, ...], str]:
    """What may change under a point's feet: the weights, the prompts, the engine."""
    origin, drafted = run.provenance, run.point.speculation
    models = {"target": run.point.target.model, "draft": drafted.model if drafted else None}
    weights = {(role, str(models[role])): sha for role, sha in origin.weights_sha256.items()}
    prompts = {("prompts", run.point.traffic.prompts or run.point.traffic.domain): origin.prompts_sha256}
    return weights | prompts | {("engine", run.hardware.id, run.point.target.engine): engine(origin)}


class RunSet(tuple[RunRecord, ...]):
    """The records that count (`current`) among those given, in their order."""

    _tables: dict[tuple[Any, ...], pd.DataFrame]

    def __new__(cls, runs: Iterable[RunRecord] = ()) -> Self:
        made = super().__new__(cls, current(runs))
        made._tables = {}
        return made

    @classmethod
    def of(cls, runs: Iterable[RunRecord]) -> "RunSet":
        """These runs; a set as it is, with the tables that it has."""
        return runs if isinstance(runs, RunSet) else cls(runs)

    @property
    def machine(self) -> str | None:
        """Id of their machine, the first run's; None of an empty set."""
        return self[0].hardware.id if self else None

    @cached_property
    def closed(self) -> "RunSet":
        """The runs of closed loops: those with a batch."""
        return self._only(lambda run: run.point.load.concurrency is not None)

    @cached_property
    def poisson(self) -> "RunSet":
        """The runs with a rate of arrivals."""
        return self._only(lambda run: run.point.load.request_rate_per_s is not None)

    @cached_property
    def baselines(self) -> "RunSet":
        """The runs without speculation."""
        return self._only(lambda run: run.point.speculation is None)

    @cached_property
    def drafting(self) -> "RunSet":
        """The runs with speculation."""
        return self._only(lambda run: run.point.speculation is not None)

    def joined(self, others: Iterable[RunRecord]) -> "RunSet":
        """These runs and those of the others on their machine, with their target; small batches first."""
        mine = {(run.hardware.id, run.point.target) for run in self}
        more = [run for run in others if (run.hardware.id, run.point.target) in mine]
        return RunSet(sorted([*self, *more], key=lambda run: run.point.load.concurrency or 0))

    def _only(self, wanted: Callable[[RunRecord], bool]) -> "RunSet":
        """Those wanted; this set, with its tables, where that is all of it."""
        runs = list(filter(wanted, self))
        return self if len(runs) == len(self) else RunSet(runs)


_KEPT: dict[tuple[tuple[int, str], ...], tuple[list[RunRecord], RunSet]] = {}
"""With the records that were read, so that no other takes one's id."""


def once(make: Callable[Concatenate[RunSet, P], pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """A function from runs to a table, computed once for each RunSet and each choice of its other arguments.

    A chapter asks for the same table a dozen times. Any iterable of records may be given in place of a set.
    """

    @wraps(make)
    def cached(runs: Iterable[RunRecord], *args: P.args, **how: P.kwargs) -> pd.DataFrame:
        own, name = RunSet.of(runs), (make.__qualname__, args, *sorted(how.items()))
        if name not in own._tables:
            own._tables[name] = make(own, *args, **how)
        return own._tables[name].copy(deep=False)  # the caller may add columns

    return cached


def once_a_run(make: Callable[Concatenate[RunRecord, P], T]) -> Callable[Concatenate[RunRecord, P], T]:
    """A function of one run, computed once for its rows; what it returns is kept, and not to be changed."""
    values: dict[tuple[Any, ...], T] = {}

    @wraps(make)
    def cached(run: RunRecord, *args: P.args, **how: P.kwargs) -> T:
        assert run.measurement is not None  # a RunSet holds good records only
        made_of = run.run_id, run.measurement.requests_sha256, run.measurement.steady_s
        name = (*made_of, args, *sorted(how.items()))
        if name not in values:
            values[name] = make(run, *args, **how)
        return values[name]

    return cached


def replay(plan: AnyPlan, here: str | None = None) -> RunSet:
    """The runs of a plan's points, in its order, all from one `machine`. Targets bear the plan's name.

    Of several hosts of that machine the newest that measured every point is taken; where none did, all are.
    Empty for a chapter that sweeps no server; `bench.experiments.replay` reads its experiments. `here` is the
    id of the machine to prefer.

    Raises:
        ConfigError: if nothing was ever measured for this plan.
    """
    points = {point.key: point for point in plan.points()}
    if not points:
        return RunSet()
    good = [run for run in store.load() if run.key in points and run.status == "ok"]
    if not good:
        raise ConfigError(
            f"no record for the {plan.group} plan of {plan.chapter} on {plan.hardware!r}: measure it with "
            f"`specbook run {plan.chapter} --hardware {plan.hardware} --group {plan.group}`"
        )
    chosen = machine(((run.key, run) for run in good), plan.hardware, here)
    own = [run for run in good if run.hardware.id == chosen]
    place = {key: index for index, key in enumerate(points)}
    whole = sorted(next(iter(by_host(own)), own), key=lambda record: place[record.key])
    return _kept(whole, [points[record.key].target.name for record in whole])


def _kept(runs: list[RunRecord], names: list[str]) -> RunSet:
    """The set of these runs under these names: that of last time, with its tables, if they are the same."""
    asked = tuple(zip(map(id, runs), names, strict=True))  # the store reads a record once, and keeps it
    if asked not in _KEPT:
        if len(_KEPT) == SETS:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[asked] = runs, RunSet(map(RunRecord.named, runs, names))
    return _KEPT[asked][1]


def machine(
    measured: Iterable[tuple[str, RunRecord | ExperimentRecord]], hardware: str, here: str | None = None
) -> str | None:
    """Id of the machine whose records a page shows; None without any.

    `here`, if it has measured any of them; else the one that measured most, of two the one that measured
    last. Machines that the folder is for come before all others: a page says whose records it shows.

    `measured` is the key and a good record of what a plan asks for, sweeps or experiments.
    """
    all_of_them, wanted = list(measured), machines.read(hardware)
    fitting = [one for one in all_of_them if wanted.fits(one[1].hardware.kind, one[1].hardware.gpu_name)]
    keys, last = dict[str, set[str]](), dict[str, str]()
    for key, record in fitting or all_of_them:
        keys.setdefault(record.hardware.id, set()).add(key)
        last[record.hardware.id] = max(record.started_at, last.get(record.hardware.id, ""))
    return here if here in keys else max(keys, key=lambda name: (len(keys[name]), last[name]), default=None)


def recorded(plan: AnyPlan) -> RunSet:
    """`replay` of a plan that a page can do without: empty where it was never measured."""
    with suppress(ConfigError):
        return replay(plan)
    return RunSet()


def of_chapter(chapter: str, hardware: str) -> RunSet:
    """What is `recorded` of a full plan; empty where there is no such plan for this hardware."""
    with suppress(ConfigError):
        return recorded(load(chapter, hardware, "full"))
    return RunSet()
