"""The one reader of the YAML files below params/."""

from pathlib import Path
from typing import Any

import yaml

from specbook.errors import ConfigError
from specbook.suggestions import NO_YAML, near


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
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except NO_YAML as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if not isinstance(body, dict):
        raise ConfigError(f"{path} holds {type(body).__name__}, want a mapping of names to values")
    return body
