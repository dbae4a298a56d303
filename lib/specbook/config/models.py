"""Models that several machines serve: `params/models/<name>/model.yaml`, with the config.json beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from specbook import paths
from specbook.config.checkpoint import read_config
from specbook.config.packages import Packaged
from specbook.config.schema import Draft, Frozen, Name, Target, resolve_model
from specbook.config.yaml_files import read_as
from specbook.errors import ConfigError
from specbook.suggestions import near

Format = Literal["bf16", "fp8", "int4-awq", "mxfp4", "gguf-q4_1", "gguf-f32"]
Revision = Field(default=None, pattern=r"^[0-9a-f]{40}$")
SHAPES = "build/shapes"
"""Folder of models and heads of which only the shape is served: see `shape`."""


class Weights(Packaged):
    """One set of a model's weights: on a hub, or a GGUF in a package, kept or made into safetensors."""

    model: Name
    """Hub id; with `pip`, the folder below `build/` that `bench.packaged_models` makes."""
    revision: str | None = Revision
    """The repository's commit; None where it was not found."""
    quantization_config: dict[str, JsonValue] | None = None
    """As its config.json has it; None where the model's own config.json says all."""
    source: str = Field(pattern=r"\S")


class HeadShape(Frozen):
    """What an EAGLE-3 head's config.json has that is not its target's."""

    intermediate_size: int = Field(ge=1)
    draft_vocab_size: int = Field(ge=1)
    """Tokens that it can draft."""


class Head(Frozen):
    """A public draft that was trained for the model."""

    draft: Draft
    num_layers: int = Field(ge=1)
    """Number of layers of its own; each keeps keys and values as a layer of the target does."""
    weight_bytes: int | None = Field(default=None, gt=0)
    """Bytes of its files; None where no source gives them."""
    shape: HeadShape | None = None
    """None where it is not known: then only the head itself can be served."""
    source: str = Field(pattern=r"\S")


class Model(Frozen):
    """A model: its weights in several formats, its public heads, and who hosts it."""

    title: Name
    licence: str | None = None
    """Licence of its weights; None where its page on the hub says it."""
    config_source: str = Field(pattern=r"\S")
    """Where the values of config.json were read."""
    weights: dict[Format, Weights] = Field(min_length=1)
    heads: dict[Name, Head] = Field(default_factory=dict)
    apis: tuple[str, ...] = ()
    """Entries of `params/prices.yaml`: hosts of the same weights."""

    def head_of(self, model: str) -> Head | None:
        """The head with this hub id."""
        return next((head for head in self.heads.values() if head.draft.model == model), None)


def _folder(name: str) -> Path:
    return paths.params_dir() / "models" / name


def config(name: str) -> dict[str, Any]:
    """The config.json of the model of that name."""
    return read_config(_folder(name))


def names() -> list[str]:
    """Every model of params/models/."""
    return sorted(path.parent.name for path in paths.params_dir().glob("models/*/model.yaml"))


def load(name: str) -> Model:
    """The model of that name; ConfigError if there is none, naming the near match, or its file is wrong."""
    if name not in names():
        raise ConfigError(f"no model {name!r} in params/models/{near(name, names())}")
    return read_as(_folder(name) / "model.yaml", Model)


def by_hub_id(hub_id: str) -> tuple[str, Format] | None:
    """Name and format of the model whose weights have this hub id; None where no model file names it."""
    for name in names():
        for form, weights in load(name).weights.items():
            if weights.model == hub_id:
                return name, form
    return None


def of_shape(name: str) -> Model | None:
    """The model of which this is a shape, `qwen3-32b-fp8`; None where no model file knows it."""
    each = ((model, load(model)) for model in names())
    return next((one for model, one in each if name in {f"{model}-{form}" for form in one.weights}), None)


def stored(target: Target) -> tuple[dict[str, Any] | None, Format | None]:
    """A target's config.json, of its folder or its model file, and its format where only that file says it.

    (None, None) where it is in neither, or cannot be read.
    """
    folder = Path(resolve_model(target.model))
    try:
        if folder.is_dir():
            return read_config(folder), None
        named = by_hub_id(target.model)
        return (config(named[0]), named[1]) if named else (None, None)
    except ConfigError:
        return None, None


def shape(name: str) -> dict[str, Any]:
    """The config.json of a model in one format (`qwen3-32b-fp8`) or of a head (`qwen3-32b-eagle3`).

    Raises:
        ConfigError: if no model file knows it, or its shape is not known.
    """
    for model in names():
        body = config(model)
        for form, weights in load(model).weights.items():
            if name == f"{model}-{form}":
                return _narrowed(name, body, form, weights)
        if head := load(model).heads.get(name.removeprefix(f"{model}-")):
            return _head_of(name, body, head)
    raise ConfigError(
        f"no model {name!r} in params/models/: a shape is named <model>-<format> or <model>-<head>"
    )


def as_shape(name: str, draft: Any) -> Any:
    """A draft of the model `name`, its head's shape in place of its weights; one without a head as it is."""
    heads = load(name).heads.items() if isinstance(draft, Mapping) else ()
    short = next((short for short, head in heads if head.draft.model == draft.get("model")), None)
    if short is None:
        return draft
    shape(f"{name}-{short}")
    return {**draft, "model": f"{SHAPES}/{name}-{short}", "revision": None}


def head_of_shape(folder: str) -> Head | None:
    """The head whose shape is served from this folder, named as plans name it; None for any other model."""
    if Path(folder).parent != Path(SHAPES):
        return None
    by_folder = {
        f"{SHAPES}/{model}-{short}": head for model in names() for short, head in load(model).heads.items()
    }
    return by_folder.get(folder)


def _narrowed(name: str, body: dict[str, Any], form: Format, weights: Weights) -> dict[str, Any]:
    if form == "bf16" or "quantization_config" in body:
        return body
    if weights.quantization_config is None:
        raise ConfigError(f"params/models/ gives no quantization_config of {name}: add it to serve its shape")
    return {**body, "quantization_config": weights.quantization_config}


def _head_of(name: str, body: dict[str, Any], head: Head) -> dict[str, Any]:
    """An EAGLE-3 head of layers as the target's attention is; Llama's layers, whatever the target's are."""
    if head.shape is None:
        raise ConfigError(f"params/models/ gives no shape of {name}: add it to its model.yaml")
    keys = (
        "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps",
        "max_position_embeddings", "hidden_act", "initializer_range", "bos_token_id", "eos_token_id",
    )  # fmt: skip
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "torch_dtype": "bfloat16",
        "num_hidden_layers": head.num_layers, "tie_word_embeddings": False, "rope_theta": body["rope_theta"],
        **{key: body[key] for key in keys if key in body}, **head.shape.model_dump(),
    }  # fmt: skip
