"""From a parameter file to the points to measure: `params/<hardware>/<chapter>.yaml` -> Plan -> points."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import ValidationError

from specbook import paths
from specbook.config import Domain
from specbook.errors import ConfigError
from specbook.mistakes import close, explain, near
from specbook.sweep import Plan

Source = Literal["records", "hardware"]
GROUPS = ("quick", "full")
_JUPYTER_NAMES = {"In", "Out"}


def read_file(path: Path) -> dict[str, Any]:
    """A parameter file as a mapping.

    Raises:
        ConfigError: if it is missing, is not YAML, or holds anything but a mapping.
    """
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(p.stem for p in path.parent.glob("*.yaml"))
        raise ConfigError(f"no plan {path}{near(path.stem, known)}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if not isinstance(body, dict):
        raise ConfigError(f"{path} holds {type(body).__name__}, want a mapping with {' and '.join(GROUPS)}")
    return body


def file(chapter: str, hardware: str) -> Path:
    """The parameter file of a chapter on a hardware."""
    folder = paths.params_dir() / hardware
    if not folder.is_dir():
        known = [p.name for p in paths.params_dir().glob("*/")]
        raise ConfigError(f"no hardware profile {hardware!r}{near(hardware, known)}")
    return folder / f"{chapter}.yaml"


def chapters(names: Sequence[str], hardware: str) -> list[str]:
    """Full chapter names for names, prefixes such as `02`, or `all`, in the book's order.

    Raises:
        ConfigError: for a name that is no chapter of this hardware, naming the near match.
    """
    known = sorted(path.stem for path in file("", hardware).parent.glob("[0-9]*.yaml"))
    found: set[str] = set()
    for name in names:
        matches = known if name == "all" else [stem for stem in known if name and stem.startswith(name)]
        if not matches:
            raise ConfigError(f"no chapter {name!r} for hardware {hardware!r}{near(name, known)}")
        found.update(matches)
    return sorted(found)


def load(chapter: str, hardware: str, group: str, **overrides: Any) -> Plan:
    """The plan of a chapter; `overrides` replace its fields where they are not None.

    Raises:
        ConfigError: for an unknown chapter, hardware, group or field, naming the near match.
    """
    body = read_file(file(chapter, hardware))
    return build(chapter, body, hardware=hardware, group=group, overrides=overrides)


def build(
    chapter: str, body: Mapping[str, Any], *, hardware: str, group: str, overrides: Mapping[str, Any]
) -> Plan:
    """A plan from a parameter file's content; see `load`."""
    known = [name for name in GROUPS if isinstance(body.get(name), Mapping)]
    if group not in known:
        raise ConfigError(f"no group {group!r} in the plan of {chapter}{near(group, known)}")
    chosen = {name: value for name, value in overrides.items() if value is not None}
    fields = {**body[group], **chosen, "chapter": chapter, "hardware": hardware, "group": group}
    for name in fields:
        if name not in Plan.model_fields:
            raise ConfigError(f"unknown parameter {name!r} in the plan of {chapter}{near(name, _settable())}")
    try:
        plan = Plan.model_validate(fields)
        _check(plan)
    except ValidationError as error:
        raise ConfigError(f"plan of {chapter}: {explain(error, Plan)}") from error
    return plan


def _check(plan: Plan) -> None:
    """Refuse now what would go wrong, or count double, once points are measured."""
    missing = [c for c in plan.concurrency if c not in plan.num_requests]
    if missing:
        raise ConfigError(
            f"plan of {plan.chapter}: num_requests has no entry for concurrency {missing}: add it"
        )
    for traffic in plan.traffic():
        if traffic.domain not in get_args(Domain) and not traffic.file().is_file():
            meant = near(traffic.domain, get_args(Domain))
            raise ConfigError(f"plan of {plan.chapter}: no domain {traffic.domain!r}{meant}")
    keys = [point.key for point in plan.points()]
    if len(set(keys)) < len(keys):
        raise ConfigError(f"plan of {plan.chapter}: a list names one value twice: name it once")
    if plan.lossless is not None:
        plan.speculations((plan.lossless.num_speculative_tokens,))


def _settable() -> set[str]:
    return set(Plan.model_fields) - {"chapter", "hardware", "group"}


def from_notebook(chapter: str, names: Mapping[str, Any]) -> Plan:
    """The plan that a notebook's parameters ask for; call it with `globals()` in the first cell after them.

    The cell tagged `parameters` says which names exist. Papermill injects whatever it is given, and only logs
    what it does not know, so every other name is refused here. When the cell is run once more, names of later
    cells are there too: then only those that look misspelt are refused.

    Raises:
        ConfigError: for a name that is no parameter, naming the near match; see `load` for the rest.
    """
    known = {"hardware", "group", "source", *GROUPS, *_settable()} - {"target"}
    again = any(isinstance(value, Plan) for value in names.values())
    given = {name: value for name, value in names.items() if _is_parameter(name, value)}
    for name in given:
        if name not in known and (not again or close(name, known)):
            raise ConfigError(f"unknown parameter {name!r}{near(name, known)}")
    if given["source"] not in get_args(Source):
        raise ConfigError(f"source = {given['source']!r}: use 'records' (replay) or 'hardware' (measure)")
    hardware, group = given["hardware"], given["group"]
    body = {**read_file(file(chapter, hardware)), **{g: given[g] for g in GROUPS if g in given}}
    overrides = {name: value for name, value in given.items() if name in _settable() & known}
    return build(chapter, body, hardware=hardware, group=group, overrides=overrides)


def _is_parameter(name: str, value: Any) -> bool:
    return not name.startswith("_") and name not in _JUPYTER_NAMES and _is_plain(value)


def _is_plain(value: Any) -> bool:
    """Whether papermill could have injected it: JSON, and nothing else."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
