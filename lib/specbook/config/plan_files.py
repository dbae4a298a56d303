"""From a parameter file, `params/<hardware>/<chapter>.yaml`, or a notebook's parameters to a plan."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from specbook import paths
from specbook.config import machines
from specbook.config import plan_overrides as own
from specbook.config.chapter import Chapter, CostPlan
from specbook.config.machines import hardwares
from specbook.config.plan import AnyPlan, Plan
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import close, explain, near

Source = Literal["records", "hardware"]
GROUPS = ("quick", "full")
APPENDIX = "appendix_"
"""Begins the name of a plan that is no chapter: it is measured by name only."""
EXPERIMENTS: dict[str, type[AnyPlan]] = {"sweep": Plan, "cost": CostPlan}
"""What a parameter file's `experiment` may be; without one it is a sweep, or a `Chapter` of parts."""
_WHERE = {"chapter", "hardware", "group"}
CHAPTER_ALONE = ("context",)
"""Fields of a chapter of parts that its sweeps do not have."""
KEYS = ("experiment", "hardware", "group", "source", "quick_book", *GROUPS)
"""Top-level keys of a parameter file."""
_JUPYTER_NAMES = {"In", "Out"}
_INJECTED = "# Parameters\n"
"""First line of the cell that papermill adds."""


def file(chapter: str, hardware: str) -> Path:
    """The parameter file of a chapter on a hardware: its own, or the one that machines with models share."""
    base, available = machines.folder(hardware), hardwares()
    if base not in available:  # a path such as `../x` among them
        raise ConfigError(f"no hardware profile {base!r}{near(base, available)}")
    if chapter != Path(chapter).name or not chapter.isprintable():
        raise ConfigError(f"no plan {chapter!r}: a chapter is named without a folder")
    own = paths.params_dir() / base / f"{chapter}.yaml"
    shared = paths.params_dir() / machines.SHARED / own.name
    return shared if machines.served(hardware) and not own.is_file() and shared.parent.is_dir() else own


def chapters(names: Sequence[str], hardware: str) -> list[str]:
    """Full chapter names for names, prefixes such as `02`, or `all` that have a number, in the book's order.

    Raises:
        ConfigError: for a name that is no chapter of this hardware, naming the near match.
    """
    folders = {file("", hardware).parent, paths.params_dir() / machines.folder(hardware)}
    numbered = sorted({path.stem for folder in folders for path in folder.glob("[0-9]*.yaml")})
    stems = [*numbered, *sorted(path.stem for folder in folders for path in folder.glob(f"{APPENDIX}*.yaml"))]
    chosen: set[str] = set()
    for name in names:
        matches = numbered if name == "all" else [stem for stem in stems if name and stem.startswith(name)]
        if not matches:
            raise ConfigError(f"no chapter {name!r} for hardware {hardware!r}{near(name, stems)}")
        chosen.update(matches)
    return sorted(chosen)


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
    groups = [name for name in GROUPS if isinstance(body.get(name), Mapping)]
    if group not in groups:
        raise ConfigError(f"no group {group!r} in the plan of {chapter}{near(group, groups)}")
    chosen = {name: value for name, value in overrides.items() if value is not None}
    where = {"chapter": chapter, "hardware": hardware, "group": group}

    def sweep(planned: Mapping[str, Any]) -> AnyPlan:
        return _made(Plan, {**own.filled(chapter, own.of_machine(planned, hardware), chosen), **where})

    if kind is Plan:
        return sweep(body[group])
    if kind is CostPlan:
        return _made(kind, {**own.cost(body[group], hardware), **chosen, **where})
    of_chapter = {name: chosen.pop(name) for name in CHAPTER_ALONE if name in chosen}
    sweeps = body[group].get("sweeps", [])
    if not isinstance(sweeps, list) or not all(isinstance(one, Mapping) for one in sweeps):
        raise ConfigError(f"plan of {chapter}: `sweeps` is a list of groups, each with its target")
    return _made(Chapter, {**body[group], **of_chapter, **where, "sweeps": [sweep(one) for one in sweeps]})


def _made(kind: type[AnyPlan], fields: Mapping[str, Any]) -> AnyPlan:
    chapter = fields["chapter"]
    for name in fields:
        if name not in kind.model_fields:
            fitting = near(name, set(kind.model_fields) - _WHERE)
            raise ConfigError(f"unknown parameter {name!r} in the plan of {chapter}{fitting}")
    try:
        plan = kind.model_validate(fields)
        plan.check()
    except ValidationError as error:
        raise ConfigError(f"plan of {chapter}: {explain(error, kind)}") from error
    return plan


def experiment(chapter: str, body: Mapping[str, Any]) -> type[AnyPlan]:
    """The kind of plan that a file is for; ConfigError, naming the near match, if none is so called."""
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
    by_chapter = {name: load(name, plan.hardware, plan.group).parts() for name in plan.of}
    if nothing := [name for name, parts in by_chapter.items() if not parts]:
        raise ConfigError(f"plan of {plan.chapter}: `of` names chapters that sweep no server: {nothing}")
    return [part for parts in by_chapter.values() for part in parts]


def settable(kind: type[AnyPlan]) -> set[str]:
    """Fields of a plan that a parameter file or a notebook may set; in a chapter of parts, of every sweep."""
    alone = CHAPTER_ALONE if kind is Chapter else ()
    return {*(Plan if kind is Chapter else kind).model_fields, *alone} - _WHERE


def from_notebook(chapter: str, names: Mapping[str, Any]) -> AnyPlan:
    """The plan that a notebook's parameters ask for; call it with `globals()` in the first cell after them.

    The cell tagged `parameters` says which names exist. Papermill injects whatever it is given, and only logs
    what it does not know, so every other name is refused here. When the cell is run once more, names of later
    cells are there too: then only those that look misspelt are refused.

    Raises:
        ConfigError: for a name that is no parameter, naming the near match; see `load` for the rest.
    """
    _check_names(names.get("In", ()))
    body = read_file(file(chapter, names["hardware"]))
    names_of_plan = settable(experiment(chapter, body))
    allowed = {*KEYS, *names_of_plan}
    again = any(isinstance(value, AnyPlan) for value in names.values())
    hidden = {name for name in names if name.startswith("_")} | _JUPYTER_NAMES
    given = {name: value for name, value in names.items() if name not in hidden and _is_plain(value)}
    for name in given:
        if name not in allowed and (not again or close(name, allowed)):
            raise ConfigError(f"unknown parameter {name!r}{near(name, allowed)}")
    if given["source"] not in get_args(Source):
        raise ConfigError(f"source = {given['source']!r}: use 'records' (replay) or 'hardware' (measure)")
    hardware, group = given["hardware"], given["group"]
    body = {**body, **{g: given[g] for g in GROUPS if g in given}}
    overrides = {name: value for name, value in given.items() if name in names_of_plan}
    return build(chapter, body, hardware=hardware, group=group, overrides=overrides)


def _check_names(cells: Iterable[str]) -> None:
    """Papermill writes `name = value` with whatever it is given for a name, so a name may be any code."""
    for cell in cells:
        for made in ast.parse(cell).body if cell.startswith(_INJECTED) else ():
            if not (isinstance(made, ast.Assign) and all(isinstance(t, ast.Name) for t in made.targets)):
                raise ConfigError(
                    f"a parameter's name is code, and it was run: {ast.unparse(made)!r}: give a plain name"
                )


def _is_plain(value: Any) -> bool:
    """Whether papermill could have injected it: JSON, and nothing else."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
