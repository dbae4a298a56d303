"""How many bytes a weight takes as a model is served: its dtype, and what quantisation leaves of it.

Sources: the `dtype` and `quantization_config` of a Hugging Face config.json; vLLM's `--quantization`.
"""

from collections.abc import Mapping
from typing import Any

from specbook.config.schema import Frozen, Target

DTYPE_BYTES = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
QUANTIZED_BYTES = {"fp8": 1.0, "fbgemm_fp8": 1.0}
"""Formats of which the name alone says the width; others say it in the checkpoint's config."""


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
