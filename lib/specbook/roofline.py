"""The least a decode step can cost: bytes and FLOPs from the model's shape, time from the machine's peaks.

Counts matrix products and attention; activations, norms and sampling are left out, so the times are lower
bounds and what a measured step takes beyond them is overhead.

Sources: Williams et al. 2009 (doi:10.1145/1498765.1498785); shapes as transformers builds Llama, Qwen and
Mixtral.
"""

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from specbook.config import Frozen
from specbook.errors import ConfigError

SUPPORTED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
"""`model_type` values whose layers are what `ModelShape` counts; any other is refused."""


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
    """Of a dense feed-forward layer."""
    num_moe_layers: int = Field(default=0, ge=0)
    """Layers with experts instead of a dense feed-forward."""
    num_experts: int = Field(default=0, ge=0)
    num_experts_per_token: int = Field(default=0, ge=0)
    moe_intermediate_size: int = Field(default=0, ge=0)
    """Of one expert."""
    qk_norm: bool = False
    qkv_bias: bool = False

    @classmethod
    def from_config(cls, path: Path) -> Self:
        """The shape in a Hugging Face `config.json` (the file, or the folder that holds it).

        Raises:
            ConfigError: if there is no such file, or the architecture is not in SUPPORTED.
        """
        file = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} is no readable config.json: {error}") from error
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

    def _matrix_weights(self, experts: float) -> float:
        """Weights in the layers' matrices and the output head, with `experts` of them per expert layer."""
        h = self.hidden_size
        dense = (self.num_layers - self.num_moe_layers) * 3 * h * self.intermediate_size
        moe = self.num_moe_layers * (h * self.num_experts + experts * 3 * h * self.moe_intermediate_size)
        return self.num_layers * self._attention + dense + moe + self.vocab_size * h

    @property
    def num_parameters(self) -> int:
        """All weights, embeddings and norms included."""
        head = self.head_dim
        norms = 2 * self.hidden_size + (2 * head if self.qk_norm else 0)
        bias = head * (self.num_heads + 2 * self.num_kv_heads) if self.qkv_bias else 0
        embedding = 0 if self.tied_embeddings else self.vocab_size * self.hidden_size
        rest = self.num_layers * (norms + bias) + self.hidden_size + embedding
        return int(self._matrix_weights(self.num_experts)) + rest

    @property
    def num_active_parameters(self) -> int:
        """Matrix weights one token is multiplied with: its own experts, the output head, no embedding
        lookup.
        """
        return int(self._matrix_weights(self.num_experts_per_token))

    def experts_touched(self, tokens: int) -> float:
        """Distinct experts per layer that `tokens` tokens reach, routed evenly and independently.

        E (1 - (1 - k/E)^tokens): an upper bound, since real routing is uneven and neighbours agree.
        """
        if self.num_experts == 0:
            return 0.0
        missed = (1.0 - self.num_experts_per_token / self.num_experts) ** tokens
        return self.num_experts * (1.0 - missed)

    def weight_bytes(self, dtype_bytes: float, tokens: int | None = None) -> float:
        """Bytes of all weights (default), or of those a step over `tokens` tokens reads."""
        if tokens is None:
            return self.num_parameters * dtype_bytes
        return self._matrix_weights(self.experts_touched(tokens)) * dtype_bytes

    def kv_bytes_per_token(self, dtype_bytes: float) -> float:
        """Keys and values of one token in all layers, in bytes."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype_bytes


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
        "qkv_bias": config["model_type"] == "qwen2",
    }


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


class StepCost(Frozen):
    """The least that one decode (or verification) step costs on a machine."""

    bytes_read: float
    """Weights once, and every sequence's keys and values."""
    flops: float
    memory_s: float | None
    """bytes_read / peak bandwidth; None where the peak is unknown."""
    compute_s: float | None

    @property
    def least_s(self) -> float | None:
        """The longer of the two times; None unless both are known."""
        if self.memory_s is None or self.compute_s is None:
            return None
        return max(self.memory_s, self.compute_s)

    @property
    def bound(self) -> Literal["memory", "compute"] | None:
        """What limits the step; None unless both times are known."""
        if self.memory_s is None or self.compute_s is None:
            return None
        return "memory" if self.memory_s >= self.compute_s else "compute"

    def overhead_s(self, measured_s: float) -> float | None:
        """What a measured step took beyond the roofline; None where the roofline is unknown."""
        return None if self.least_s is None else measured_s - self.least_s


def decode_step(
    shape: ModelShape,
    batch: int,
    context: int,
    dtype_bytes: float,
    peak_bytes_per_s: float | None,
    peak_flops_per_s: float | None,
    tokens_per_sequence: int = 1,
) -> StepCost:
    """Roofline of one step of the target.

    Args:
        shape: the model.
        batch: concurrent sequences, >= 1.
        context: tokens already in each sequence, >= 0.
        dtype_bytes: bytes per weight, and per cached key or value.
        peak_bytes_per_s: peak memory bandwidth; None if unknown, never a guess.
        peak_flops_per_s: peak at this precision; None if unknown.
        tokens_per_sequence: 1 to decode, K + 1 to verify K draft tokens.

    Raises:
        ValueError: if a size is out of range, or a peak is not positive.
    """
    if batch < 1 or context < 0 or dtype_bytes <= 0 or tokens_per_sequence < 1:
        raise ValueError(f"impossible step: {batch=}, {context=}, {dtype_bytes=}, {tokens_per_sequence=}")
    if any(peak is not None and peak <= 0 for peak in (peak_bytes_per_s, peak_flops_per_s)):
        raise ValueError(
            f"a peak is positive, or None if unknown; got {peak_bytes_per_s=}, {peak_flops_per_s=}"
        )
    tokens = batch * tokens_per_sequence
    cache = batch * context * shape.kv_bytes_per_token(dtype_bytes)
    bytes_read = shape.weight_bytes(dtype_bytes, tokens) + cache
    # Attention: 2 FLOPs a weight for the scores, 2 for the weighted sum of the values.
    attention = 4 * shape.num_layers * shape.num_heads * shape.head_dim * context
    flops = tokens * (2.0 * shape.num_active_parameters + attention)
    return StepCost(
        bytes_read=bytes_read,
        flops=flops,
        memory_s=None if peak_bytes_per_s is None else bytes_read / peak_bytes_per_s,
        compute_s=None if peak_flops_per_s is None else flops / peak_flops_per_s,
    )
