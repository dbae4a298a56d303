"""The one rule for which record counts, where a point was measured more than once."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from specbook.records.identity import engine
from specbook.records.run import RunRecord

T = TypeVar("T")


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
    turns = {id(run): _turn(run) for run in good}
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


def _turn(run: RunRecord) -> tuple[str | int, ...]:
    """What an arm and its baseline share: machine, cell, restart and round."""
    return run.hardware.id, run.kind, run.point.cell_key, run.point.restart, run.round.id


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
