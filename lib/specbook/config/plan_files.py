"""From a parameter file to the points to measure: `params/<hardware>/<chapter>.yaml` -> Plan -> points."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from specbook import paths
from specbook.config import machines, models
from specbook.config import plan_overrides as own
from specbook.config.chapter import Chapter
from specbook.config.plan import Plan
from specbook.config.plan_checks import check
from specbook.config.pricing import CostPlan
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain, near

Source = Literal["records", "hardware"]
GROUPS = ("quick", "full")
APPENDIX = "appendix_"
"""Begins the name of a plan that is no chapter: it is measured by name only."""
AnyPlan = Plan | CostPlan | Chapter
EXPERIMENTS: dict[str, type[AnyPlan]] = {"sweep": Plan, "cost": CostPlan}
"""What a parameter file's `experiment` may be; without one it is a sweep, or a `Chapter` of parts."""
_WHERE = {"chapter", "hardware", "group"}
CHAPTER_ALONE = ("context",)
"""Fields of a chapter of parts that its sweeps do not have."""


KEYS = ("experiment", "hardware", "group", "source", "quick_book", *GROUPS)
"""Top-level keys of a parameter file."""


def hardwares() -> list[str]:
    """Every folder of params/ that is a hardware's."""
    folders = paths.params_dir().glob("*/")
    return sorted(path.name for path in folders if path.is_dir() and path.name not in machines.NO_HARDWARE)


def file(chapter: str, hardware: str) -> Path:
    """The parameter file of a chapter on a hardware: its own, or the one that machines with models share."""
    base, known = machines.folder(hardware), hardwares()
    if base not in known:  # a path such as `../x` among them
        raise ConfigError(f"no hardware profile {base!r}{near(base, known)}")
    if chapter != Path(chapter).name:
        raise ConfigError(f"no plan {chapter!r}: a chapter is named without a folder")
    own = paths.params_dir() / base / f"{chapter}.yaml"
    shared = paths.params_dir() / machines.SHARED / own.name
    return shared if models.served(hardware) and not own.is_file() and shared.parent.is_dir() else own


def chapters(names: Sequence[str], hardware: str) -> list[str]:
    """Full chapter names for names, prefixes such as `02`, or `all` that have a number, in the book's order.

    Raises:
        ConfigError: for a name that is no chapter of this hardware, naming the near match.
    """
    folders = {file("", hardware).parent, paths.params_dir() / machines.folder(hardware)}
    numbered = sorted({path.stem for folder in folders for path in folder.glob("[0-9]*.yaml")})
    known = [*numbered, *sorted(path.stem for folder in folders for path in folder.glob(f"{APPENDIX}*.yaml"))]
    found: set[str] = set()
    for name in names:
        matches = numbered if name == "all" else [stem for stem in known if name and stem.startswith(name)]
        if not matches:
            raise ConfigError(f"no chapter {name!r} for hardware {hardware!r}{near(name, known)}")
        found.update(matches)
    return sorted(found)


def in_book(chapter: str, hardware: str, group: str) -> str:
    """The group that a book of `group` shows of a chapter.

    A file's `quick_book: full` says that a quick book replays the full plan: to measure even the quick one
    would take longer than a reader waits.

    Raises:
        ConfigError: for an unknown chapter or hardware, or another word than a group's.
    """
    shown = read_file(file(chapter, hardware)).get("quick_book", group) if group == "quick" else group
    if shown not in GROUPS:
        raise ConfigError(f"plan of {chapter}: `quick_book` is no group: {shown!r}{near(shown, GROUPS)}")
    return shown


def load(chapter: str, hardware: str, group: str, **overrides: Any) -> AnyPlan:
    """The plan of a chapter, of the kind that its file names (EXPERIMENTS).

    `overrides` replace its fields where they are not None.

    Raises:
        ConfigError: for an unknown chapter, hardware, group or field, naming the near match.
    """
    body = read_file(file(chapter, hardware))
    return build(chapter, body, hardware=hardware, group=group, overrides=overrides)


def build(
    chapter: str, body: Mapping[str, Any], *, hardware: str, group: str, overrides: Mapping[str, Any]
) -> AnyPlan:
    """A plan from a parameter file's content; see `load`."""
    kind = experiment(chapter, body)
    for name in body:
        if name not in KEYS:  # a misspelt group would else be ignored beside the right one
            raise ConfigError(f"unknown key {name!r} in the parameter file of {chapter}{near(name, KEYS)}")
    known = [name for name in GROUPS if isinstance(body.get(name), Mapping)]
    if group not in known:
        raise ConfigError(f"no group {group!r} in the plan of {chapter}{near(group, known)}")
    chosen = {name: value for name, value in overrides.items() if value is not None}
    where = {"chapter": chapter, "hardware": hardware, "group": group}
    if kind is Plan:
        return _made(kind, {**_sweep(chapter, body[group], hardware, chosen), **where})
    if kind is not Chapter:
        return _made(kind, {**models.cost(body[group], hardware), **chosen, **where})
    mine = {name: chosen.pop(name) for name in CHAPTER_ALONE if name in chosen}
    sweeps = body[group].get("sweeps", [])
    if not isinstance(sweeps, list) or not all(isinstance(one, Mapping) for one in sweeps):
        raise ConfigError(f"plan of {chapter}: `sweeps` is a list of groups, each with its target")
    parts = [_made(Plan, {**_sweep(chapter, one, hardware, chosen), **where}) for one in sweeps]
    return _made(Chapter, {**body[group], **mine, **where, "sweeps": parts})


def _sweep(
    chapter: str, planned: Mapping[str, Any], hardware: str, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    return own.filled(chapter, models.sweep(planned, hardware), chosen)


def _made(kind: type[AnyPlan], fields: Mapping[str, Any]) -> AnyPlan:
    chapter = fields["chapter"]
    for name in fields:
        if name not in kind.model_fields:
            fitting = near(name, set(kind.model_fields) - _WHERE)
            raise ConfigError(f"unknown parameter {name!r} in the plan of {chapter}{fitting}")
    try:
        plan = kind.model_validate(fields)
        check(plan) if isinstance(plan, Plan) else plan.check()
    except ValidationError as error:
        raise ConfigError(f"plan of {chapter}: {explain(error, kind)}") from error
    return plan


def experiment(chapter: str, body: Mapping[str, Any]) -> type[AnyPlan]:
    """The kind of plan that a parameter file's content is for.

    Raises:
        ConfigError: for an unknown `experiment`, naming the near match.
    """
    groups = [body[name] for name in GROUPS if isinstance(body.get(name), Mapping)]
    if any({"sweeps", "experiments"} & set(group) for group in groups):
        return Chapter
    name = body.get("experiment", "sweep")
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ConfigError(f"plan of {chapter}: no experiment {name!r}{near(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def sweeps(plan: AnyPlan) -> list[Plan]:
    """The plans whose records a chapter draws: its own, or those of the chapters that it puts a price on.

    Raises:
        ConfigError: if one of those does not exist, or is no sweep of a server.
    """
    if not isinstance(plan, CostPlan):
        return plan.parts()
    found = {name: load(name, plan.hardware, plan.group).parts() for name in plan.of}
    if nothing := [name for name, parts in found.items() if not parts]:
        raise ConfigError(f"plan of {plan.chapter}: `of` names chapters that sweep no server: {nothing}")
    return [part for parts in found.values() for part in parts]


def settable(kind: type[AnyPlan] = Plan) -> set[str]:
    """Fields of a plan that a parameter file or a notebook may set; in a chapter of parts, of every sweep."""
    alone = CHAPTER_ALONE if kind is Chapter else ()
    return {*(Plan if kind is Chapter else kind).model_fields, *alone} - _WHERE
