"""A model's shape: how many weights, keys and values its config.json makes.

Shapes are those that transformers builds of Llama, Qwen, Mixtral and gpt-oss.
"""

import json
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from specbook.config.schema import Frozen
from specbook.errors import ConfigError
from specbook.stats import experts

SUPPORTED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss")
"""`model_type` values whose layers are what `ModelShape` counts; any other is refused."""


def read_config(file: Path) -> dict[str, Any]:
    """A Hugging Face `config.json`.

    Raises:
        ConfigError: if it cannot be read, or holds no mapping.
    """
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is no readable config.json: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{file} holds {type(config).__name__}, want a mapping: copy the model again")
    return config


class ModelShape(Frozen):
    """The sizes of a decoder-only transformer with gated feed-forward layers, dense or mixture-of-experts."""

    num_layers: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    num_kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)
    vocab_size: int = Field(ge=1)
    tied_embeddings: bool
    intermediate_size: int = Field(ge=0)
    """Inner width of a dense feed-forward layer."""
    num_moe_layers: int = Field(default=0, ge=0)
    """Layers with experts instead of a dense feed-forward."""
    num_experts: int = Field(default=0, ge=0)
    num_experts_per_token: int = Field(default=0, ge=0)
    moe_intermediate_size: int = Field(default=0, ge=0)
    """Inner width of one expert."""
    qk_norm: bool = False
    qkv_bias: bool = False
    sliding_window: int = Field(default=0, ge=0)
    """Tokens that a sliding layer attends to."""
    num_sliding_layers: int = Field(default=0, ge=0)
    sinks_and_biases: bool = False
    """As gpt-oss has them: a sink per head, and a bias of each output, router and expert."""

    @model_validator(mode="after")
    def _experts_suffice(self) -> Self:
        if self.num_experts_per_token > self.num_experts:
            raise ValueError(
                f"a token takes {self.num_experts_per_token} experts, and there are {self.num_experts}: fix "
                "num_experts_per_tok or num_experts"
            )
        return self

    @classmethod
    def from_config(cls, path: Path) -> Self:
        """The shape in a Hugging Face `config.json` (the file, or the folder that holds it).

        Raises:
            ConfigError: if there is no such file, or the architecture is not in SUPPORTED.
        """
        file = path / "config.json" if path.is_dir() else path
        config = read_config(file)
        if config.get("model_type") not in SUPPORTED:
            raise ConfigError(
                f"{file}: model_type {config.get('model_type')!r} is not one of {', '.join(SUPPORTED)}"
            )
        try:
            return cls(**_shape_fields(config), **_moe_fields(config))
        except KeyError as error:
            raise ConfigError(f"{file} has no {error}: it is needed for the roofline") from error

    @property
    def _attention(self) -> int:
        """Matrix weights of one attention layer."""
        return 2 * self.hidden_size * self.head_dim * (self.num_heads + self.num_kv_heads)

    @property
    def attention_weights(self) -> int:
        """Matrix weights of all attention layers."""
        return self.num_layers * self._attention

    @property
    def feed_forward_weights(self) -> int:
        """Matrix weights of all feed-forward layers and of all experts, routers left out."""
        dense = (self.num_layers - self.num_moe_layers) * self.intermediate_size
        experts = self.num_moe_layers * self.num_experts * self.moe_intermediate_size
        return 3 * self.hidden_size * (dense + experts)

    def _matrix_weights(self, experts: float) -> float:
        """Weights in the layers' matrices and the output head, with `experts` of them per expert layer."""
        h = self.hidden_size
        dense = (self.num_layers - self.num_moe_layers) * 3 * h * self.intermediate_size
        moe = self.num_moe_layers * (h * self.num_experts + experts * 3 * h * self.moe_intermediate_size)
        return self.attention_weights + dense + moe + self.vocab_size * h

    @property
    def num_parameters(self) -> int:
        """All weights, embeddings, norms and biases included."""
        head = self.head_dim
        norms = 2 * self.hidden_size + (2 * head if self.qk_norm else 0)
        bias = head * (self.num_heads + 2 * self.num_kv_heads) if self.qkv_bias else 0
        embedding = 0 if self.tied_embeddings else self.vocab_size * self.hidden_size
        rest = self.num_layers * (norms + bias + self._sinks_and_biases) + self.hidden_size + embedding
        return int(self._matrix_weights(self.num_experts)) + rest

    @property
    def _sinks_and_biases(self) -> int:
        """Number of sinks and biases in one layer, those of the queries, keys and values left out."""
        if not self.sinks_and_biases:
            return 0
        of_experts = self.num_experts * (2 * self.moe_intermediate_size + self.hidden_size + 1)
        return self.num_heads + self.hidden_size + of_experts

    @property
    def num_active_parameters(self) -> int:
        """Matrix weights one token is multiplied with: its own experts, the output head, no embedding
        lookup.
        """
        return int(self._matrix_weights(self.num_experts_per_token))

    def experts_touched(self, tokens: int) -> float:
        """Experts per layer that `tokens` tokens reach, by `experts.touched`; 0 where there are none."""
        if self.num_experts == 0:
            return 0.0
        return experts.touched(self.num_experts, self.num_experts_per_token, tokens)

    def weight_bytes(
        self,
        dtype_bytes: float,
        tokens: int | None = None,
        layer_bytes: float | None = None,
        experts: float | None = None,
    ) -> float:
        """Bytes of all weights (default), or of those a step over `tokens` tokens reads.

        `layer_bytes`: of a weight in the layers where they are quantised; the rest keeps `dtype_bytes`.
        `experts`: how many a step touches in each layer that has any, where that was counted.
        """
        if experts is None and tokens is not None:
            experts = self.experts_touched(tokens)
        weights = self._matrix_weights(self.num_experts if experts is None else experts)
        layers = weights - self.vocab_size * self.hidden_size
        rest = (self.num_parameters if experts is None else weights) - layers
        return layers * (layer_bytes or dtype_bytes) + rest * dtype_bytes

    def kv_bytes_per_token(self, dtype_bytes: float) -> float:
        """Keys and values of one token in all layers, in bytes."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype_bytes

    def kv_bytes(self, context: int, dtype_bytes: float) -> float:
        """Keys and values of a sequence of `context` tokens: sliding layers keep their window only."""
        kept = context * (self.num_layers - self.num_sliding_layers)
        kept += min(context, self.sliding_window) * self.num_sliding_layers
        return self.kv_bytes_per_token(dtype_bytes) / self.num_layers * kept


def _shape_fields(config: dict[str, Any]) -> dict[str, Any]:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    return {
        "num_layers": config["num_hidden_layers"],
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or hidden // heads,
        "vocab_size": config["vocab_size"],
        "tied_embeddings": config.get("tie_word_embeddings", False),
        "intermediate_size": config["intermediate_size"],
        "qk_norm": config["model_type"].startswith("qwen3"),
        "qkv_bias": config["model_type"] in ("qwen2", "gpt_oss"),
        "sinks_and_biases": config["model_type"] == "gpt_oss",
        **_sliding(config),
    }


def _sliding(config: dict[str, Any]) -> dict[str, int]:
    """Layers that the config lists as sliding; without a list every layer attends to all tokens."""
    sliding = (config.get("layer_types") or []).count("sliding_attention")
    return {"num_sliding_layers": sliding, "sliding_window": config["sliding_window"] if sliding else 0}


def _moe_fields(config: dict[str, Any]) -> dict[str, Any]:
    experts = config.get("num_experts") or config.get("num_local_experts") or 0
    if not experts:
        return {}
    every, dense = config.get("decoder_sparse_step", 1), set(config.get("mlp_only_layers") or ())
    layers = range(config["num_hidden_layers"])
    return {
        "num_moe_layers": sum(i not in dense and (i + 1) % every == 0 for i in layers),
        "num_experts": experts,
        "num_experts_per_token": config["num_experts_per_tok"],
        "moe_intermediate_size": config.get("moe_intermediate_size") or config["intermediate_size"],
    }
