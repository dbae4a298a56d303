"""A model's shape and how wide its numbers are: how many weights, keys and values its config.json makes.

Shapes are those that transformers builds of Llama, Qwen, Mixtral and gpt-oss. Widths are by the `dtype` and
`quantization_config` of a Hugging Face config.json, and vLLM's `--quantization`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from specbook.config.schema import Frozen, Target
from specbook.errors import ConfigError
from specbook.stats import experts

SUPPORTED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss")
"""`model_type` values whose layers are what `ModelShape` counts; any other is refused."""
KEPT_BYTES = 2.0
"""Bytes of an activation, a cached key or value, and a weight that no format narrows: bfloat16."""
DTYPE_BYTES = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
QUANTIZED_BYTES = {"fp8": 1.0, "fbgemm_fp8": 1.0}
"""Formats of which the name alone says the width; others say it in the checkpoint's config."""


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
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The shape that a Hugging Face config.json describes.

        Raises:
            ConfigError: if its architecture is not in SUPPORTED, or a size is missing.
        """
        if config.get("model_type") not in SUPPORTED:
            raise ConfigError(f"model_type {config.get('model_type')!r} is not one of {', '.join(SUPPORTED)}")
        try:
            return cls(**_shape_fields(config), **_moe_fields(config))
        except KeyError as error:
            raise ConfigError(f"it has no {error}, which the roofline needs") from error

    @property
    def attention_weights(self) -> int:
        """Matrix weights of all attention layers."""
        return 2 * self.num_layers * self.hidden_size * self.head_dim * (self.num_heads + self.num_kv_heads)

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
        of_layer = 2 * self.hidden_size + (2 * head if self.qk_norm else 0)
        if self.qkv_bias:
            of_layer += head * (self.num_heads + 2 * self.num_kv_heads)
        if self.sinks_and_biases:
            of_experts = self.num_experts * (2 * self.moe_intermediate_size + self.hidden_size + 1)
            of_layer += self.num_heads + self.hidden_size + of_experts
        embedding = 0 if self.tied_embeddings else self.vocab_size * self.hidden_size
        rest = self.num_layers * of_layer + self.hidden_size + embedding
        return int(self._matrix_weights(self.num_experts)) + rest

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
        tokens = context * (self.num_layers - self.num_sliding_layers)
        tokens += min(context, self.sliding_window) * self.num_sliding_layers
        return self.kv_bytes_per_token(dtype_bytes) / self.num_layers * tokens


def _shape_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    sliding = (config.get("layer_types") or []).count("sliding_attention")  # without a list none slides
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
        "num_sliding_layers": sliding,
        "sliding_window": config["sliding_window"] if sliding else 0,
    }


def _moe_fields(config: Mapping[str, Any]) -> dict[str, Any]:
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


class Widths(Frozen):
    """Bytes per number. Scales are left out, so that they are never too large."""

    dtype_bytes: float
    """Bytes of a number in the output head, and in cached keys and values."""
    layer_bytes: float
    """Bytes of a weight in the layers."""

    @property
    def quantized(self) -> bool:
        """Whether the layers are narrower than the rest."""
        return self.layer_bytes != self.dtype_bytes


def widths(target: Target, config: Mapping[str, Any]) -> Widths | None:
    """The widths `target` is served with, by the plan and its config.json; None where they do not say."""
    dtype = target.dtype if target.dtype != "auto" else config.get("dtype") or config.get("torch_dtype")
    dtype_bytes = DTYPE_BYTES.get(str(dtype))
    stored = config.get("quantization_config")
    if dtype_bytes is None:
        return None
    if target.quantization is None and not stored:
        return Widths(dtype_bytes=dtype_bytes, layer_bytes=dtype_bytes)
    layer_bytes = _stored_bytes(stored) if stored else QUANTIZED_BYTES.get(str(target.quantization))
    return Widths(dtype_bytes=dtype_bytes, layer_bytes=layer_bytes) if layer_bytes else None


def _stored_bytes(stored: Mapping[str, Any]) -> float | None:
    """Bytes of a quantised weight in a checkpoint; None for several widths, or an unknown format."""
    groups = stored.get("config_groups") or {}
    bits = {(group.get("weights") or {}).get("num_bits") for group in groups.values()} or {stored.get("bits")}
    (only,) = bits if len(bits) == 1 else (None,)
    return only / 8 if only else QUANTIZED_BYTES.get(str(stored.get("quant_method")))


class Format(NamedTuple):
    """Bytes of a weight, its share of scales and zero points included; routers and embeddings stay BF16."""

    attention_bytes: float
    feed_forward_bytes: float
    hidden_multiple: int = 1
    """To which an engine's kernels round up the experts' hidden size."""
    intermediate_multiple: int = 1
    """And their intermediate size."""


FORMATS = {
    "bf16": Format(2.0, 2.0),
    "fp8": Format(1.0, 1.0),
    "int4-awq": Format(*2 * [4 / 8 + (16 + 4) / 8 / 128]),
    "mxfp4": Format(2.0, 4 / 8 + 8 / 8 / 32, 256, 128),
    "gguf-q4_1": Format(*2 * [4 / 8 + (16 + 16) / 8 / 32]),
    "gguf-f32": Format(4.0, 4.0),
}
"""FP8 has a scale a channel or a block of 128 by 128, which is left out. AWQ has a 16-bit scale and a 4-bit
zero for 128 weights, Q4_1 a 16-bit scale and minimum for 32; MXFP4 an 8-bit scale for 32, and is rounded up
as vLLM 0.32's Marlin kernels ask."""


class TargetShape(NamedTuple):
    """A target whose shape is known."""

    shape: ModelShape
    form: Format
    """Format of its weights in memory."""
    widths: Widths
    """Bytes per number of what a step reads."""

    @classmethod
    def of(cls, target: Target, config: Mapping[str, Any] | None, form: str | None = None) -> Self | None:
        """Shape, format and widths of a target; None where its config.json says too little.

        Args:
            target: how it is served.
            config: its config.json; None where nobody has it.
            form: name of its format in FORMATS where that is known; else config.json says the widths. Experts
                are most of a model that narrows them alone, so all its layers count as wide as they are.
        """
        if config is None:
            return None
        try:
            shape = ModelShape.from_config(config)
        except ConfigError:
            return None
        if form is not None:
            listed = FORMATS[form]
            return cls(shape, listed, Widths(dtype_bytes=KEPT_BYTES, layer_bytes=listed.feed_forward_bytes))
        width = widths(target, config)
        return cls(shape, Format(width.layer_bytes, width.layer_bytes), width) if width else None
