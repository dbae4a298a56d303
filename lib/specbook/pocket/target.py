"""Train the pocket target: a deep, narrow Qwen3, on a CPU in hours or a GPU in minutes."""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch.nn import functional
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import ModelOutput

from specbook.plan.schema import Frozen
from specbook.pocket import checkpoint
from specbook.pocket.corpus import DOMAINS, held_out, train_examples
from specbook.pocket.muon import Muon
from specbook.pocket.packing import Batch, batches, encoded, mixture
from specbook.pocket.tokenizer import END, PAD, VOCAB_SIZE, train_tokenizer

LOG_STEPS = 60
"""From one held-out loss, and checkpoint, to the next."""
NO_MATRIX = re.compile(r"embed|mlp\.gate\.|parametrizations")
"""Embeddings and routers: tables of a row per token or expert, rather than maps between spaces; and narrow
factors of a matrix."""


class TargetRecipe(Frozen):
    """Everything that decides the weights."""

    may_see: ClassVar[Sequence[str]] = DOMAINS
    """Domains that it may be trained on."""

    num_hidden_layers: int = 24
    hidden_size: int = 192
    intermediate_size: int = 512
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    head_dim: int = 64
    shares: dict[str, float] = Field(
        default={"code": 0.12, "chat": 0.13, "math": 0.3, "json": 0.3, "prose": 0.15}
    )
    """Share of each domain in the examples."""
    prompt_weight: float = 0.1
    """Weight of a prompt token in the loss; an answer token weighs 1."""
    start: str | None = "36ca260:models/pocket-dense"
    """Weights and tokenizer to go on from: a folder of the project, or one of an older commit as git names it
    (`commit:models/name`); None: from nothing."""
    rows: int = 12
    row_tokens: int = 256
    steps: int = 1500
    warmup_steps: int = 20
    decay_share: float = 0.4
    """Last part of the steps, over which the learning rate falls linearly to 0."""
    muon_lr: float = 0.015
    """For the layers' matrices."""
    adam_lr: float = 2e-3
    """For embeddings, norms and routers."""
    seed: int = 0

    def begin(self, scratch: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerBase]:
        """Model and tokenizer before the first step; see `starting_point`."""
        return starting_point(self, scratch)

    def before(self, step: int, model: torch.nn.Module) -> None:
        """What changes in the model before a step: here nothing."""

    def loss(self, model: torch.nn.Module, rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """What a step makes smaller, of rows as `weighted_loss` takes them."""
        return weighted_loss(model, *rows)

    def publish(
        self,
        out: Path,
        model: Qwen3ForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
        log: Sequence[dict[str, Any]],
    ) -> None:
        """Write what is kept of a trained model to `out`; see `checkpoint.publish`."""
        checkpoint.publish(out, model, tokenizer, self, log)


def model_config(recipe: TargetRecipe) -> Qwen3Config:
    """A Qwen3 configuration that vLLM serves as it is."""
    return Qwen3Config(
        vocab_size=VOCAB_SIZE, hidden_size=recipe.hidden_size, intermediate_size=recipe.intermediate_size,
        num_hidden_layers=recipe.num_hidden_layers, num_attention_heads=recipe.num_attention_heads,
        num_key_value_heads=recipe.num_key_value_heads, head_dim=recipe.head_dim,
        max_position_embeddings=1024, tie_word_embeddings=True, attn_implementation="sdpa",
        bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def build_tokenizer(seed: int) -> PreTrainedTokenizerBase:
    """The tokenizer, learnt from 3,000 training examples a domain."""
    examples = [e for domain in DOMAINS for e in train_examples(domain, 3000, seed)]
    Random(seed).shuffle(examples)
    tokenizer = train_tokenizer(examples)
    assert tokenizer.convert_tokens_to_ids([PAD, END]) == [0, 2]
    return tokenizer


def attention_mask(segments: torch.Tensor) -> torch.Tensor:
    """Mask [rows, 1, tokens, tokens], true where attended: causal, and closed between examples of one row."""
    tokens = segments.shape[1]
    causal = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    same = segments[:, :, None] == segments[:, None, :]
    return (same & causal)[:, None]


def _autocast(device: str) -> torch.autocast:
    return torch.autocast(device, torch.bfloat16, enabled=fast_bfloat16(device))


def weighted_loss(model: Qwen3ForCausalLM, ids, mask, positions, labels, weights) -> torch.Tensor:
    """Cross-entropy, averaged with the labels' weights; nats per token."""
    return answer_loss(model, forward(model, ids, mask, positions), labels, weights)


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


def fast_bfloat16(device: str) -> bool:
    """True unless the processor would emulate it, some forty times slower than float32."""
    return device != "cpu" or bool(torch.cpu.get_capabilities()["avx512_bf16"])


def lr_scale(step: int, recipe: TargetRecipe) -> float:
    """Warm up, hold, fall linearly to 0: the held part does not depend on how long training will last."""
    decay_steps = max(1, int(recipe.steps * recipe.decay_share))
    return min(1.0, (step + 1) / max(1, recipe.warmup_steps), (recipe.steps - step) / decay_steps)


def optimizers(model: torch.nn.Module, recipe: TargetRecipe, workers: int = 1) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, as it learns from half the tokens AdamW needs; AdamW for the rest.

    What is fixed has none.
    """
    learn = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in learn if p.ndim > 1 and not NO_MATRIX.search(name)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in learn if id(p) not in chosen]
    found: list[torch.optim.Optimizer] = []
    if matrices:
        found.append(Muon(matrices, lr=recipe.muon_lr, weight_decay=0.01, workers=workers))
    if rest:
        found.append(torch.optim.AdamW(rest, lr=recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0))
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


def starting_point(recipe: TargetRecipe, scratch: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerBase]:
    """Model and tokenizer as the recipe starts: random and learnt anew, or those of a folder.

    Raises:
        ConfigError: if git does not know the folder.
    """
    if recipe.start is None:
        return new_model(recipe), build_tokenizer(recipe.seed)
    start = checkpoint.older(recipe.start, scratch)
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation="sdpa")
    return model, AutoTokenizer.from_pretrained(start)


def _to_torch(batch: Batch, device: str) -> tuple[torch.Tensor, ...]:
    segments = torch.from_numpy(batch.segments)
    mask = attention_mask(segments)
    tensors = (batch.ids, mask, batch.positions, batch.labels, batch.weights)
    return tuple(torch.as_tensor(t).to(device) for t in tensors)


def held_out_batches(tokenizer: PreTrainedTokenizerBase, recipe: TargetRecipe) -> dict[str, Batch]:
    """One batch a domain of test examples, loss on answers only."""
    return {
        domain: next(
            batches(encoded(_cycle(held_out(domain)), tokenizer), recipe.rows, recipe.row_tokens, 0.0)
        )
        for domain in recipe.shares
    }


def _cycle(examples: list) -> Iterator:
    while True:
        yield from examples


def train(
    recipe: TargetRecipe,
    out: Path,
    scratch: Path,
    device: str = "cpu",
    report: Callable[[str], None] = print,
    workers: int = 1,
    samples: Iterator[tuple[list[int], int]] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> dict[str, Any]:
    """Train from the recipe's start, and write weights (bfloat16), tokenizer and `training.csv` to `out`.

    Args:
        recipe: what to train.
        out: model folder, readable by transformers and vLLM.
        scratch: where a checkpoint is kept every `LOG_STEPS` steps; a second call goes on from it.
        device: a torch device.
        workers: threads that share a batch's rows: on busy cores better than threads that share an operation.
        report: called with one line of progress now and then.
        samples: what to learn instead of the corpus, as `packing.encoded` gives it; from its start each call.
        tokenizer: whose ids `samples` are, if not the corpus's.

    Returns:
        Steps, tokens, hours and the last held-out losses (nats per answer token), for the card.

    Raises:
        ConfigError: if the checkpoint in `scratch` was made with another recipe.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    model, tokenizer = (new_model(recipe), tokenizer) if tokenizer else recipe.begin(scratch)
    model = model.to(device).train()
    steppers = optimizers(model, recipe, workers)
    made = checkpoint.resume(scratch, model, steppers, recipe)
    samples = samples or encoded(mixture(recipe.shares, recipe.seed, recipe.may_see), tokenizer)
    stream = batches(samples, recipe.rows, recipe.row_tokens, recipe.prompt_weight)
    tests = held_out_batches(tokenizer, recipe)
    for loss in _steps(islice(stream, made.step, recipe.steps), model, steppers, recipe, made, workers):
        if (made.step - 1) % 20 == 0 or made.step == recipe.steps:
            report(f"{made}  loss {loss:.3f}  (of {recipe.steps} steps)")
        if made.step % LOG_STEPS == 0 or made.step == recipe.steps:
            made.log.append(made.row(loss) | _test_losses(model, tests, device))
            report(f"held-out {made.log[-1]}")
            checkpoint.save(scratch, model, steppers, recipe, made)
    recipe.publish(out, model, tokenizer, made.log)
    return made.log[-1]


def _steps(
    stream, model, steppers, recipe: TargetRecipe, made: checkpoint.Progress, workers: int
) -> Iterator[float]:
    """A step for each batch, counted in `made`: its loss."""
    pool, device = ThreadPoolExecutor(workers), str(model.device)
    for batch in stream:
        started = time.perf_counter()
        recipe.before(made.step, model)
        loss = _step(pool, workers, model, steppers, _to_torch(batch, device), recipe, made.step)
        made.add(time.perf_counter() - started, int((batch.segments >= 0).sum()))
        yield loss


def _backward(pool, workers: int, model, tensors, recipe: TargetRecipe) -> float:
    """The batch's loss, and its gradients: each worker takes its share of the rows, and gradients add up."""
    total = tensors[-1].sum()

    def part(rows: tuple[torch.Tensor, ...]) -> float:
        loss = recipe.loss(model, rows) * (rows[-1].sum() / total)
        loss.backward()
        return float(loss.detach())

    return sum(pool.map(part, zip(*(t.chunk(workers) for t in tensors), strict=True)))


def _step(pool, workers: int, model, steppers, tensors, recipe: TargetRecipe, step: int) -> float:
    loss, scale = _backward(pool, workers, model, tensors, recipe), lr_scale(step, recipe)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in steppers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * scale
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss


@torch.no_grad()
def _test_losses(model, tests: dict[str, Batch], device: str) -> dict[str, float]:
    return {
        f"{domain}_loss": round(float(weighted_loss(model, *_to_torch(batch, device))), 4)
        for domain, batch in tests.items()
    }
