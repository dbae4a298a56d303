"""A model as its config.json describes it: the one reader of that file, in a folder or on the hub."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open

from specbook import paths
from specbook.errors import ConfigError

HUB_TIMEOUT_S = 10
OF_TRAINING = ("training_args", "optimizer", "scheduler", "rng_state")
"""How files begin that a trainer leaves beside the weights."""
NESTED = ("transformer_layer_config", "text_config", "model")
"""Where the language model's own values stand: of a head by speculators, in a model of images too, in a head
that was converted for an older vLLM."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a model, such as its config.json; ConfigError if it cannot be read, or is no mapping."""
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


def weight_files(folder: Path) -> list[Path]:
    """The files that an engine would load: safetensors, and where there are none those of other formats."""
    for pattern in ("*.safetensors", "*.bin", "*.pt", "*.gguf"):
        if files := sorted(path for path in folder.glob(pattern) if not path.name.startswith(OF_TRAINING)):
            return files
    return []


def read_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor of a folder's safetensors files; `engine.preflight` says which are damaged."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with suppress(SafetensorError, OSError), safe_open(path, framework="numpy") as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return shapes


def cached(model: str, revision: str | None) -> Path | None:
    """The model's config.json, if the hub's cache on this machine has it; None too for what can be no id."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def check_hub(model: str, revision: str | None) -> None:
    """A hub id is in the hub's cache here, or the hub knows it; an engine takes a minute to find that out.

    Raises:
        ConfigError: if neither is so, or the hub does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    named = f"{model}@{revision}" if revision else model
    try:
        if not cached(model, revision):
            HfApi().model_info(model, revision=revision, timeout=HUB_TIMEOUT_S)
    except RevisionNotFoundError as error:
        raise ConfigError(
            f"the hub has no revision {revision!r} of {model}: fix `revision`, the commit of its repository"
        ) from error
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise ConfigError(
            f"{named} is no folder here, and no model of the hub that you may read: fix `model`"
        ) from error
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise ConfigError(
            f"{named} is no folder here and not in the hub's cache, and the hub does not answer "
            f"({type(error).__name__}): fix `model`, or download it first"
        ) from error


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
    tensors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shape of each tensor, by name; empty where no safetensors file is here."""

    @classmethod
    def of_draft(cls, model: str) -> Self:
        """The draft that a plan names, a folder here or on the hub; ConfigError if it cannot be read."""
        folder = paths.at(model)
        file = folder / "config.json" if folder.is_dir() else from_hub(model)
        try:
            return cls(model, read_json(file), read_shapes(file.parent))
        except ConfigError as error:
            raise ConfigError(f"draft {model}: {error}") from error

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """The model in this folder; see `read_config` for errors."""
        return cls(folder.name, read_config(folder), read_shapes(folder))

    def get(self, key: str) -> Any:
        """A value of the configuration, None where it has none; the language model's own goes first."""
        levels = (*(_mapping(self.config.get(name)) for name in NESTED), self.config)
        return next((level[key] for level in levels if level.get(key) is not None), None)

    @property
    def architectures(self) -> list[str]:
        """Classes that can load it."""
        named = (
            self.config.get("architectures") or _mapping(self.config.get("model")).get("architectures") or ()
        )
        if isinstance(named, list):
            return [str(name) for name in named]
        return [named] if isinstance(named, str) else []

    @property
    def algorithms(self) -> list[str]:
        """What speculators calls it, where it wrote the configuration."""
        names = (
            self._speculators.get("algorithm"), self.config.get("speculators_model_type"),
            self.config.get("speculators_algorithm"),
        )  # fmt: skip
        return [str(word) for word in names if word]

    @property
    def fused(self) -> int:
        """Hidden states that its first layer `fc` joins: 2 in EAGLE, 3 in EAGLE-3; 0 where there is none."""
        shapes = [shape for name, shape in self.tensors.items() if f".{name}".endswith(".fc.weight")]
        if not shapes or len(shapes[0]) != 2:
            return 0
        width = self.config.get("target_hidden_size") or self.get("hidden_size") or shapes[0][0]
        return shapes[0][1] // width if isinstance(width, int) and width > 0 else 0

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
