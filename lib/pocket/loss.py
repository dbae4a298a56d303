"""The loss of packed rows, which training makes smaller, and of test examples, which it never sees."""

from collections.abc import Iterable, Mapping
from itertools import cycle

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM
from transformers.utils import ModelOutput

from pocket.corpus import held_out
from pocket.packing import Batch, batches, encoded


def attention_mask(segments: torch.Tensor) -> torch.Tensor:
    """Mask [rows, 1, tokens, tokens], true where attended: causal, and closed between examples of one row."""
    tokens = segments.shape[1]
    causal = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    same = segments[:, :, None] == segments[:, None, :]
    return (same & causal)[:, None]


def to_torch(batch: Batch, device: str) -> tuple[torch.Tensor, ...]:
    """Token ids, mask, positions, labels and weights, as `weighted_loss` takes them."""
    segments = torch.from_numpy(batch.segments)
    mask = attention_mask(segments)
    tensors = (batch.ids, mask, batch.positions, batch.labels, batch.weights)
    return tuple(torch.as_tensor(t).to(device) for t in tensors)


def fast_bfloat16(device: str) -> bool:
    """True unless the processor would emulate it, some forty times slower than float32."""
    return device != "cpu" or bool(torch.cpu.get_capabilities()["avx512_bf16"])


def _autocast(device: str) -> torch.autocast:
    return torch.autocast(device, torch.bfloat16, enabled=fast_bfloat16(device))


def forward(model: Qwen3ForCausalLM, ids, mask, positions, **wanted: bool) -> ModelOutput:
    """The model's layers over packed rows; `wanted` names what else is kept, as transformers calls it."""
    with _autocast(ids.device.type):
        return model.model(input_ids=ids, attention_mask=mask, position_ids=positions, **wanted)


def answer_loss(model: Qwen3ForCausalLM, got: ModelOutput, labels, weights) -> torch.Tensor:
    """As `weighted_loss`, of what `forward` gave."""
    with _autocast(labels.device.type):
        logits = model.lm_head(got.last_hidden_state)
    each = functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none"
    )
    return (each * weights.flatten()).sum() / weights.sum()


def weighted_loss(model: Qwen3ForCausalLM, ids, mask, positions, labels, weights) -> torch.Tensor:
    """Cross-entropy, averaged with the labels' weights; nats per token."""
    return answer_loss(model, forward(model, ids, mask, positions), labels, weights)


def held_out_batches(
    tokenizer: PreTrainedTokenizerBase, domains: Iterable[str], rows: int, row_tokens: int
) -> dict[str, Batch]:
    """One batch a domain of test examples, loss on answers only."""
    return {
        domain: next(batches(encoded(cycle(held_out(domain)), tokenizer), rows, row_tokens, 0.0))
        for domain in domains
    }


@torch.no_grad()
def held_out_losses(model: Qwen3ForCausalLM, tests: Mapping[str, Batch], device: str) -> dict[str, float]:
    """Loss on each of `held_out_batches`, nats per answer token.

    Keys are as `training.csv` names it: `<domain>_loss`.
    """
    return {
        f"{domain}_loss": round(float(weighted_loss(model, *to_torch(batch, device))), 4)
        for domain, batch in tests.items()
    }
