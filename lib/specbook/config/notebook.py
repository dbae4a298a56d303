"""The plan that a notebook's parameters ask for."""

import ast
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from specbook.config.plan_files import GROUPS, KEYS, AnyPlan, Source, build, experiment, file, settable
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import close, near

_JUPYTER_NAMES = {"In", "Out"}
_INJECTED = "# Parameters\n"
"""First line of the cell that papermill adds."""


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
    mine = settable(experiment(chapter, body))
    known = {*KEYS, *mine}
    again = any(isinstance(value, AnyPlan) for value in names.values())
    given = {name: value for name, value in names.items() if _is_parameter(name, value)}
    for name in given:
        if name not in known and (not again or close(name, known)):
            raise ConfigError(f"unknown parameter {name!r}{near(name, known)}")
    if given["source"] not in get_args(Source):
        raise ConfigError(f"source = {given['source']!r}: use 'records' (replay) or 'hardware' (measure)")
    hardware, group = given["hardware"], given["group"]
    body = {**body, **{g: given[g] for g in GROUPS if g in given}}
    overrides = {name: value for name, value in given.items() if name in mine}
    return build(chapter, body, hardware=hardware, group=group, overrides=overrides)


def _check_names(cells: Iterable[str]) -> None:
    """Papermill writes `name = value` with whatever it is given for a name, so a name may be any code."""
    for cell in cells:
        for made in ast.parse(cell).body if cell.startswith(_INJECTED) else ():
            if not (isinstance(made, ast.Assign) and all(isinstance(t, ast.Name) for t in made.targets)):
                raise ConfigError(
                    f"a parameter's name is code, and it was run: {ast.unparse(made)!r}: give a plain name"
                )


def _is_parameter(name: str, value: Any) -> bool:
    return not name.startswith("_") and name not in _JUPYTER_NAMES and _is_plain(value)


def _is_plain(value: Any) -> bool:
    """Whether papermill could have injected it: JSON, and nothing else."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
