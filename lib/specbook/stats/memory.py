"""What a server asks of its accelerators' memory, from the model's shape: a sum a rank, in bytes.

Weights, a draft's weights, activations and a reserve, against the share of the memory that the engine takes;
what is left holds keys and values. Weights, keys and values follow from the shape. Activations are an upper
bound of the widest layer at the largest step, and the reserve is an allowance: no config gives them.
"""

from typing import Self

from pydantic import Field

from specbook.config.schema import ENGINE_SHARE, Frozen
from specbook.stats.shape import KEPT_BYTES, Format, ModelShape

GIB = 2**30
RESERVE_BYTES = 2 * GIB
"""Driver, communication buffers and captured graphs, a rank: an allowance, and engines have needed more."""
LOGIT_BYTES = 6.0
"""Bytes of a logit: bfloat16 as the model gives it, and float32 as it is sampled from."""


def weight_bytes(shape: ModelShape, form: Format, padded: bool = True) -> float:
    """Bytes of all weights on one device; not `padded`: as a checkpoint holds them."""
    narrow = shape.attention_weights * form.attention_bytes
    experts = shape.feed_forward_weights * form.feed_forward_bytes
    if padded:
        inner = shape.moe_intermediate_size or shape.intermediate_size
        hidden = _rounded(shape.hidden_size, form.hidden_multiple) / shape.hidden_size
        experts *= hidden * _rounded(inner, form.intermediate_multiple) / inner
    rest = shape.num_parameters - shape.attention_weights - shape.feed_forward_weights
    return narrow + experts + rest * KEPT_BYTES


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def batched_tokens(device_bytes: float) -> int:
    """Tokens of the largest step, as vLLM 0.32's server chooses them by the device's memory."""
    return 16384 if device_bytes >= 160 * GIB else 8192 if device_bytes >= 70 * GIB else 2048


def activation_bytes(shape: ModelShape, tokens: int, rows: int, ranks: int) -> float:
    """Bytes on one rank: residual streams and widest layer of `tokens` tokens, and the logits of `rows`."""
    attention = shape.head_dim * (shape.num_heads + 2 * shape.num_kv_heads)
    inner = shape.moe_intermediate_size * shape.num_experts_per_token
    widest = 3 * (inner or shape.intermediate_size) + shape.num_experts_per_token * shape.hidden_size
    streams = 4 * shape.hidden_size + max(attention, widest) / ranks
    return tokens * streams * KEPT_BYTES + rows * shape.vocab_size * LOGIT_BYTES


class Memory(Frozen):
    """The sum of one rank, in bytes."""

    rank_bytes: float = Field(gt=0)
    """The rank's memory."""
    share: float = Field(default=ENGINE_SHARE, gt=0, le=1)
    weight_bytes: float
    draft_bytes: float | None
    """None where the draft's size is not known: then the sum is the least it can be."""
    activation_bytes: float
    kv_bytes_per_sequence: float = Field(gt=0)
    """Keys and values of one sequence of the longest length."""
    reserve_bytes: float = RESERVE_BYTES

    @classmethod
    def of(
        cls,
        shape: ModelShape,
        form: Format,
        rank_bytes: float,
        max_model_len: int,
        max_num_seqs: int,
        *,
        ranks: int = 1,
        draft_bytes: float | None = 0.0,
        draft_layers: int = 0,
        num_speculative_tokens: int = 0,
        share: float = ENGINE_SHARE,
    ) -> Self:
        """The sum of a server: see the fields, and `ranks` that share the model (tensor parallelism).

        Raises:
            ValueError: if a size is out of range.
        """
        if min(max_model_len, max_num_seqs, ranks) < 1 or min(draft_layers, num_speculative_tokens) < 0:
            raise ValueError(f"impossible server: {max_model_len=}, {max_num_seqs=}, {ranks=}")
        copies = max(1.0, ranks / shape.num_kv_heads)  # a head is never cut: with more ranks it is kept twice
        drafted = max_model_len * draft_layers / shape.num_layers * shape.kv_bytes_per_token(KEPT_BYTES)
        sequence_bytes = (shape.kv_bytes(max_model_len, KEPT_BYTES) + drafted) * copies / ranks
        rows = max_num_seqs * (num_speculative_tokens + 1)
        return cls(
            rank_bytes=rank_bytes, share=share, weight_bytes=weight_bytes(shape, form) / ranks,
            draft_bytes=None if draft_bytes is None else draft_bytes / ranks,
            activation_bytes=activation_bytes(shape, batched_tokens(rank_bytes), rows, ranks),
            kv_bytes_per_sequence=sequence_bytes,
        )  # fmt: skip

    @property
    def usable_bytes(self) -> float:
        """What the engine takes of the rank's memory."""
        return self.rank_bytes * self.share

    @property
    def used_bytes(self) -> float:
        """Before a key is cached."""
        return self.weight_bytes + (self.draft_bytes or 0.0) + self.activation_bytes + self.reserve_bytes

    @property
    def kv_bytes(self) -> float:
        """Left for keys and values; negative where nothing is."""
        return self.usable_bytes - self.used_bytes

    @property
    def sequences(self) -> int:
        """Number of sequences of the longest length that fit at once."""
        return max(0, int(self.kv_bytes // self.kv_bytes_per_sequence))

    def sum(self) -> str:
        """In words, in GB (10^9 bytes) a rank."""
        drafts = "an unknown draft" if self.draft_bytes is None else f"draft {_gb(self.draft_bytes)}"
        least = " at least" if self.draft_bytes is None else ""
        return (
            f"weights {_gb(self.weight_bytes)} + {drafts} + activations {_gb(self.activation_bytes)} + "
            f"reserve {_gb(self.reserve_bytes)} ={least} {_gb(self.used_bytes)} of {_gb(self.usable_bytes)} "
            f"GB ({self.share:.0%} of {_gb(self.rank_bytes)}), {_gb(self.kv_bytes)} for keys and values, "
            f"{_gb(self.kv_bytes_per_sequence, 3)} a sequence"
        )


def _gb(size: float, digits: int = 1) -> str:
    return f"{size / 1e9:.{digits if abs(size) > 1e8 else 3}f}"
