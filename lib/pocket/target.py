"""The pocket target, a deep, narrow Qwen3: all that decides its weights, and what training starts from."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import torch
from pydantic import Field
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from pocket import checkpoint
from pocket.corpus import DOMAINS, train_examples
from pocket.loss import weighted_loss
from pocket.tokenizer import END, PAD, VOCAB_SIZE, train_tokenizer
from specbook.config.schema import Frozen


class TrainingRecipe(Frozen):
    """How a model is trained, whatever its size."""

    may_see: ClassVar[Sequence[str]] = DOMAINS
    """Domains that it may be trained on."""

    shares: dict[str, float] = Field(default={})
    """Share of each domain in the examples; none of those that learn from a target's answers alone."""
    prompt_weight: float = 0.0
    """Weight of a prompt token in the loss; an answer token weighs 1."""
    start: str | None
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

    def begin(self, scratch: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
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


class TargetRecipe(TrainingRecipe):
    """Everything that decides the weights."""

    num_hidden_layers: int = 24
    hidden_size: int = 192
    intermediate_size: int = 512
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    head_dim: int = 64
    shares: dict[str, float] = Field(
        default={"code": 0.12, "chat": 0.13, "math": 0.3, "json": 0.3, "prose": 0.15}
    )
    prompt_weight: float = 0.1
    start: str | None = "36ca260:models/pocket-dense"


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


def new_model(recipe: TargetRecipe) -> Qwen3ForCausalLM:
    """Random weights; layers' outputs start small, so that 24 of them add up to a sane residual stream."""
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM(model_config(recipe))
    with torch.no_grad():
        for layer in model.model.layers:
            for out in (layer.self_attn.o_proj, layer.mlp.down_proj):
                out.weight.mul_(1 / math.sqrt(2 * recipe.num_hidden_layers))
    return model


def starting_point(recipe: TrainingRecipe, scratch: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer as the recipe starts: random and learnt anew, or those of a folder.

    Raises:
        ConfigError: if git does not know the folder.
    """
    if recipe.start is None:
        return new_model(recipe), build_tokenizer(recipe.seed)
    start = checkpoint.older(recipe.start, scratch)
    torch.manual_seed(recipe.seed)
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation="sdpa")
    return model, AutoTokenizer.from_pretrained(start)
