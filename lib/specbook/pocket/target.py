"""Train the pocket target from nothing: a deep, narrow Qwen3, on a CPU in hours or a GPU in minutes."""

import math
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from pydantic import Field
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from specbook.config import Frozen
from specbook.pocket import checkpoint
from specbook.pocket.corpus import DOMAINS, held_out, train_examples
from specbook.pocket.packing import Batch, batches, mixture
from specbook.pocket.tokenizer import END, PAD, VOCAB_SIZE, train_tokenizer

LOG_STEPS = 100
"""From one held-out loss, and checkpoint, to the next."""


class TargetRecipe(Frozen):
    """Everything that decides the weights."""

    num_hidden_layers: int = 24
    hidden_size: int = 192
    intermediate_size: int = 512
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    head_dim: int = 64
    shares: dict[str, float] = Field(default={"code": 0.2, "chat": 0.2, "math": 0.35, "json": 0.25})
    """Share of each domain in the examples."""
    prompt_weight: float = 0.2
    """Weight of a prompt token in the loss; an answer token weighs 1."""
    rows: int = 24
    row_tokens: int = 256
    steps: int = 1200
    warmup_steps: int = 60
    decay_share: float = 0.25
    """Last part of the steps, over which the learning rate falls linearly to 0."""
    muon_lr: float = 0.02
    """For the layers' matrices."""
    adam_lr: float = 3e-3
    """For embeddings and norms."""
    seed: int = 0


def model_config(recipe: TargetRecipe) -> Qwen3Config:
    """A Qwen3 configuration that vLLM serves as it is."""
    return Qwen3Config(
        vocab_size=VOCAB_SIZE, hidden_size=recipe.hidden_size, intermediate_size=recipe.intermediate_size,
        num_hidden_layers=recipe.num_hidden_layers, num_attention_heads=recipe.num_attention_heads,
        num_key_value_heads=recipe.num_key_value_heads, head_dim=recipe.head_dim,
        max_position_embeddings=1024, tie_word_embeddings=True, attn_implementation="eager",
        bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def build_tokenizer(seed: int) -> PreTrainedTokenizerBase:
    """The tokenizer, learnt from 3,000 training examples a domain."""
    examples = [e for domain in DOMAINS for e in train_examples(domain, 3000, seed)]
    Random(seed).shuffle(examples)
    tokenizer = train_tokenizer(examples)
    assert tokenizer.convert_tokens_to_ids([PAD, END]) == [0, 2]
    return tokenizer


def attention_mask(segments: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Additive mask [rows, 1, tokens, tokens]: causal, and closed between examples of one row."""
    tokens = segments.shape[1]
    causal = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    same = segments[:, :, None] == segments[:, None, :]
    return torch.where(same & causal, 0.0, torch.finfo(dtype).min).to(dtype)[:, None]


def weighted_loss(model: Qwen3ForCausalLM, ids, mask, positions, labels, weights) -> torch.Tensor:
    """Cross-entropy, averaged with the labels' weights; nats per token."""
    with torch.autocast(ids.device.type, torch.bfloat16):
        hidden = model.model(input_ids=ids, attention_mask=mask, position_ids=positions).last_hidden_state
        logits = model.lm_head(hidden)
    each = functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none"
    )
    return (each * weights.flatten()).sum() / weights.sum()


def lr_scale(step: int, recipe: TargetRecipe) -> float:
    """Warm up, hold, fall linearly to 0: the held part does not depend on how long training will last."""
    decay_steps = max(1, int(recipe.steps * recipe.decay_share))
    return min(1.0, (step + 1) / max(1, recipe.warmup_steps), (recipe.steps - step) / decay_steps)


def optimizers(model: torch.nn.Module, recipe: TargetRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, as it learns from half the tokens AdamW needs; AdamW for the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    found = [
        torch.optim.Muon(matrices, lr=recipe.muon_lr, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    for optimizer in found:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return found


def new_model(recipe: TargetRecipe) -> Qwen3ForCausalLM:
    """Random weights; layers' outputs start small, so that 24 of them add up to a sane residual stream."""
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM(model_config(recipe))
    with torch.no_grad():
        for layer in model.model.layers:
            for out in (layer.self_attn.o_proj, layer.mlp.down_proj):
                out.weight.mul_(1 / math.sqrt(2 * recipe.num_hidden_layers))
    return model


def _to_torch(batch: Batch, device: str) -> tuple[torch.Tensor, ...]:
    segments = torch.from_numpy(batch.segments)
    mask = attention_mask(segments, torch.bfloat16)
    tensors = (batch.ids, mask, batch.positions, batch.labels, batch.weights)
    return tuple(torch.as_tensor(t).to(device) for t in tensors)


def held_out_batches(tokenizer: PreTrainedTokenizerBase, recipe: TargetRecipe) -> dict[str, Batch]:
    """One batch a domain of test examples, loss on answers only."""
    return {
        domain: next(batches(_cycle(held_out(domain)), tokenizer, recipe.rows, recipe.row_tokens, 0.0))
        for domain in DOMAINS
    }


def _cycle(examples: list) -> Iterator:
    while True:
        yield from examples


def train(
    recipe: TargetRecipe, out: Path, scratch: Path, device: str = "cpu", report: Callable[[str], None] = print
) -> dict[str, Any]:
    """Train, and write weights (bfloat16), tokenizer and `training.csv` to `out`.

    Args:
        recipe: what to train.
        out: model folder, readable by transformers and vLLM.
        scratch: where a checkpoint is kept every `LOG_STEPS` steps; a second call goes on from it.
        device: a torch device.
        report: called with one line of progress now and then.

    Returns:
        Steps, tokens, hours and the last held-out losses (nats per answer token), for the card.

    Raises:
        ConfigError: if the checkpoint in `scratch` was made with another recipe.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer(recipe.seed)
    model = new_model(recipe).to(device).train()
    steppers = optimizers(model, recipe)
    made = checkpoint.resume(scratch, model, steppers, recipe)
    examples = mixture(recipe.shares, recipe.seed)
    stream = batches(examples, tokenizer, recipe.rows, recipe.row_tokens, recipe.prompt_weight)
    tests = held_out_batches(tokenizer, recipe)
    loss_of = torch.compile(weighted_loss, dynamic=False)
    for batch in islice(stream, made.step, recipe.steps):
        started = time.perf_counter()
        loss = _step(loss_of, model, steppers, _to_torch(batch, device), lr_scale(made.step, recipe))
        made.add(time.perf_counter() - started, int((batch.segments >= 0).sum()))
        if (made.step - 1) % 20 == 0 or made.step == recipe.steps:
            report(f"{made}  loss {loss:.3f}  (of {recipe.steps} steps)")
        if made.step % LOG_STEPS == 0 or made.step == recipe.steps:
            made.log.append(made.row(loss) | _test_losses(loss_of, model, tests, device))
            report(f"held-out {made.log[-1]}")
            checkpoint.save(scratch, model, steppers, recipe, made)
    checkpoint.publish(out, model, tokenizer, recipe, made.log)
    return made.log[-1]


def _step(loss_of, model, steppers, tensors, scale: float) -> float:
    loss = loss_of(model, *tensors)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in steppers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * scale
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())


def _test_losses(loss_of, model, tests: dict[str, Batch], device: str) -> dict[str, float]:
    # Under the training graph (no no_grad): a second compilation would cost minutes on a CPU.
    return {
        f"{domain}_loss": round(float(loss_of(model, *_to_torch(batch, device)).detach()), 4)
        for domain, batch in tests.items()
    }
