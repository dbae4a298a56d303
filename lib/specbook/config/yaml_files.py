"""The one reader of the YAML files below params/."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from specbook.errors import ConfigError
from specbook.suggestions import LOADER, NO_YAML, explain, near

T = TypeVar("T", bound=BaseModel)


def read_file(path: Path) -> dict[str, Any]:
    """A parameter file as a mapping; ConfigError if it is missing, is not YAML, or holds anything else."""
    return deepcopy(_mapping(path))


def _mapping(path: Path) -> dict[str, Any]:
    """What every reader of the file shares, and none may change."""
    try:
        body = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        siblings = sorted(p.stem for p in path.parent.glob("*.yaml"))
        raise ConfigError(f"no parameter file {path}{near(path.stem, siblings)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except NO_YAML as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if not isinstance(body, dict):
        raise ConfigError(f"{path} holds {type(body).__name__}, want a mapping of names to values")
    return body


@lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    return yaml.load(text, LOADER)  # slow all the same, and a chapter asks for a price hundreds of times


def read_as(path: Path, kind: type[T]) -> T:
    """What a parameter file describes; ConfigError, naming the field, if it is none such."""
    try:
        return kind.model_validate(_mapping(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, kind)}") from error
