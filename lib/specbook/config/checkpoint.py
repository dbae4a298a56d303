"""A model as its config.json describes it: the one reader of that file, in a folder or on the hub."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from specbook import paths
from specbook.errors import ConfigError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a model, such as its config.json.

    Raises:
        ConfigError: if it cannot be read, or holds no mapping.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): the folder holds no model") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON ({error}): copy or train the model again") from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} holds {type(content).__name__}, want a mapping: copy or train the model again"
        )
    return content


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of the model in this folder; see `read_json`."""
    return read_json(folder / "config.json")


def cached(model: str, revision: str | None) -> Path | None:
    """The model's config.json, if the hub's cache on this machine has it; None too for what can be no id."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def from_hub(model: str) -> Path:
    """A draft's config.json, downloaded; ConfigError if the hub does not give it."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model, "config.json"))
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise ConfigError(
            f"draft {model} is no folder here, and the hub does not give its config.json "
            f"({type(error).__name__}): name its method, such as eagle3:{model}"
        ) from error


@dataclass(frozen=True)
class Checkpoint:
    """A local model, as its config.json describes it."""

    name: str
    config: Mapping[str, Any]

    @classmethod
    def of_draft(cls, model: str) -> Self:
        """The draft that a plan names, be it a folder here or on the hub.

        Raises:
            ConfigError: if its config.json cannot be read.
        """
        folder = paths.at(model)
        file = folder / "config.json" if folder.is_dir() else from_hub(model)
        try:
            return cls(model, read_json(file))
        except ConfigError as error:
            raise ConfigError(f"draft {model}: {error}") from error

    def get(self, key: str) -> Any:
        """A value of the configuration, None where it has none; speculators nests a head's sizes."""
        nested = self.config.get("transformer_layer_config")
        return (nested if isinstance(nested, Mapping) else self.config).get(key)

    @property
    def architectures(self) -> list[str]:
        """Classes that can load it."""
        return [str(name) for name in self.config.get("architectures") or ()]

    @property
    def trained_depth(self) -> int | None:
        """Draft tokens a step that it was trained to give; None where it does not say, as few do.

        Source: speculators 0.9.0, whose trainer writes its depth there (models/{eagle3,peagle}/core.py).
        """
        proposals = self._speculators.get("proposal_methods")
        ways = [way for way in proposals if isinstance(way, Mapping)] if isinstance(proposals, list) else []
        depths = [way.get("speculative_tokens") for way in ways]
        return max((depth for depth in depths if isinstance(depth, int)), default=None)

    @property
    def verifier(self) -> "Checkpoint":
        """The target that it was trained for, as far as it says."""
        target = _mapping(self._speculators.get("verifier"))
        return Checkpoint(str(target.get("name_or_path")), target)

    @property
    def _speculators(self) -> Mapping[str, Any]:
        return _mapping(self.config.get("speculators_config"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
