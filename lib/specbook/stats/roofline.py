"""The least a decode step can cost: bytes and FLOPs from the model's shape, time from the machine's peaks.

Counts matrix products and attention; activations, norms and sampling are left out, so the times are lower
bounds and what a measured step takes beyond them is overhead.

Sources: Williams et al. 2009 (doi:10.1145/1498765.1498785). Saxena et al. 2025 (arXiv:2506.20675) report that
draft tokens activate more weights together and take longer to verify; Huang et al. 2025 (arXiv:2505.19645),
that a mixture gains more than a dense target at medium batch sizes.
"""

from typing import Literal

from specbook.config.schema import Frozen
from specbook.stats.shape import ModelShape


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
    layer_bytes: float | None = None,
    devices: int = 1,
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
        layer_bytes: bytes per weight in the layers where they are quantised; None for `dtype_bytes`.
        devices: that share the model (tensor parallelism); the peaks are each one's. What they tell each
            other is left out, and with fewer key-value heads than devices each head is read more than once.

    Raises:
        ValueError: if a size is out of range, or a peak is not positive.
    """
    if batch < 1 or context < 0 or dtype_bytes <= 0 or tokens_per_sequence < 1 or devices < 1:
        raise ValueError(
            f"impossible step: {batch=}, {context=}, {dtype_bytes=}, {tokens_per_sequence=}, {devices=}"
        )
    tokens = batch * tokens_per_sequence
    copies = max(1.0, devices / shape.num_kv_heads)
    cache = batch * shape.kv_bytes(context, dtype_bytes) * copies
    bytes_read = shape.weight_bytes(dtype_bytes, tokens, layer_bytes) + cache
    # Attention: 2 FLOPs a weight for the scores, 2 for the weighted sum of the values.
    attention = 4 * shape.num_layers * shape.num_heads * shape.head_dim * context
    flops = tokens * (2.0 * shape.num_active_parameters + attention)
    return StepCost(
        bytes_read=bytes_read,
        flops=flops,
        memory_s=_at("peak_bytes_per_s", peak_bytes_per_s, bytes_read, devices),
        compute_s=_at("peak_flops_per_s", peak_flops_per_s, flops, devices),
    )


def _at(name: str, peak_per_s: float | None, amount: float, devices: int) -> float | None:
    """Seconds of bytes or FLOPs that devices share, each at its peak; None where that is unknown."""
    if peak_per_s is None:
        return None
    if peak_per_s <= 0:
        raise ValueError(f"a peak is positive, or None if unknown; got {name}={peak_per_s}")
    return amount / peak_per_s / devices


def speculative_cost(plain: StepCost, verifying: StepCost, draft_s: float | None, k: int) -> float | None:
    """Price of a speculative step in plain ones, both as short as the peaks allow; None without peaks.

    Args:
        plain: a decode step of the target.
        verifying: its step over k + 1 tokens a sequence.
        draft_s: least seconds of one pass of the draft, which drafts one token.
        k: draft tokens per step, >= 1.
    """
    if plain.least_s is None or verifying.least_s is None or draft_s is None:
        return None
    return (verifying.least_s + k * draft_s) / plain.least_s


def verification_price(
    shape: ModelShape,
    batch: int,
    k: int,
    context: int,
    dtype_bytes: float,
    counted: tuple[float, float] | None = None,
) -> float:
    """Bytes read to verify k draft tokens of each sequence, over those read to decode one.

    Where reading decides how long a step takes and drafting costs nothing, this is the acceptance length from
    which speculation pays, in tokens a step: the break-even. For a dense model it is 1.

    Args:
        shape: the model.
        batch: sequences, >= 1.
        k: draft tokens of each, >= 0.
        context: tokens already in each sequence.
        dtype_bytes: of a weight, and of a cached number.
        counted: experts touched to decode and to verify, by layer; None for the formula.

    Raises:
        ValueError: if batch or k is out of range.
    """
    if batch < 1 or k < 0:
        raise ValueError(f"need batch >= 1 and k >= 0, got {batch=}, {k=}")
    cache = batch * shape.kv_bytes(context, dtype_bytes)
    touched = counted or (shape.experts_touched(batch), shape.experts_touched(batch * (k + 1)))
    decode, verify = (shape.weight_bytes(dtype_bytes, experts=experts) + cache for experts in touched)
    return verify / decode
