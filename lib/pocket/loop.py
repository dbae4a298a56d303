"""Train what a target's recipe says, on a CPU in hours or a GPU in minutes."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from pocket import checkpoint
from pocket.loss import held_out_batches, held_out_losses, to_torch
from pocket.muon import Muon
from pocket.packing import batches, encoded, mixture
from pocket.target import TrainingRecipe, new_model

LOG_STEPS = 60
"""From one held-out loss, and checkpoint, to the next."""
NO_MATRIX = re.compile(r"embed|mlp\.gate\.|parametrizations")
"""Embeddings and routers: tables of a row per token or expert, rather than maps between spaces; and narrow
factors of a matrix."""


def train(
    recipe: TrainingRecipe,
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
    tests = held_out_batches(tokenizer, recipe.shares, recipe.rows, recipe.row_tokens)
    for loss in _steps(islice(stream, made.step, recipe.steps), model, steppers, recipe, made, workers):
        if (made.step - 1) % 20 == 0 or made.step == recipe.steps:
            report(f"{made}  loss {loss:.3f}  (of {recipe.steps} steps)")
        if made.step % LOG_STEPS == 0 or made.step == recipe.steps:
            made.log.append(made.row(loss) | held_out_losses(model, tests, device))
            report(f"held-out {made.log[-1]}")
            checkpoint.save(scratch, model, steppers, recipe, made)
    recipe.publish(out, model, tokenizer, made.log)
    return made.log[-1]


def _steps(
    stream, model, steppers, recipe: TrainingRecipe, made: checkpoint.Progress, workers: int
) -> Iterator[float]:
    """A step for each batch, counted in `made`: its loss."""
    pool, device = ThreadPoolExecutor(workers), str(model.device)
    for batch in stream:
        started = time.perf_counter()
        recipe.before(made.step, model)
        loss = _step(pool, workers, model, steppers, to_torch(batch, device), recipe, made.step)
        made.add(time.perf_counter() - started, int((batch.segments >= 0).sum()))
        yield loss


def _step(pool, workers: int, model, steppers, tensors, recipe: TrainingRecipe, step: int) -> float:
    loss, scale = _backward(pool, workers, model, tensors, recipe), lr_scale(step, recipe)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in steppers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * scale
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss


def _backward(pool, workers: int, model, tensors, recipe: TrainingRecipe) -> float:
    """The batch's loss, and its gradients: each worker takes its share of the rows, and gradients add up."""
    total = tensors[-1].sum()

    def part(rows: tuple[torch.Tensor, ...]) -> float:
        loss = recipe.loss(model, rows) * (rows[-1].sum() / total)
        loss.backward()
        return float(loss.detach())

    return sum(pool.map(part, zip(*(t.chunk(workers) for t in tensors), strict=True)))


def lr_scale(step: int, recipe: TrainingRecipe) -> float:
    """Warm up, hold, fall linearly to 0: the held part does not depend on how long training will last."""
    decay_steps = max(1, int(recipe.steps * recipe.decay_share))
    return min(1.0, (step + 1) / max(1, recipe.warmup_steps), (recipe.steps - step) / decay_steps)


def optimizers(
    model: torch.nn.Module, recipe: TrainingRecipe, workers: int = 1
) -> list[torch.optim.Optimizer]:
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
