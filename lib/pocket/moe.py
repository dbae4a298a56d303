"""A mixture of experts made of the dense pocket target: its MLPs are dealt out to experts, and trained on."""

from pathlib import Path
from typing import Self

import torch
from pydantic import Field, model_validator
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from pocket.loss import answer_loss, forward
from pocket.target import TargetRecipe
from specbook.bench.moe_routing import routers

NOT_TAKEN_OVER = {"architectures", "model_type", "dtype", "transformers_version"}
"""Keys of the dense model's configuration that the mixture does not take over."""


class MoeRecipe(TargetRecipe):
    """A target's recipe, and how its experts are made; what it says of layers is the dense model's."""

    start: str = "models/pocket-dense"
    start_sha256: str = ""
    """SHA-256 of the start's weights: a checkpoint that began from others is not gone on from."""
    num_experts: int = Field(default=8, ge=2)
    """In each layer; together they are as large as the dense MLP."""
    num_experts_per_tok: int = Field(default=2, ge=1)
    narrowing_steps: int = Field(default=180, ge=1)
    """Steps over which the experts of a token fall from all, which is the dense model, to so many."""
    balance: float = Field(default=0.01, ge=0)
    """Weight of the load-balancing loss, layer by layer."""
    steps: int = 720

    @model_validator(mode="after")
    def _experts_fit(self) -> Self:
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError(
                f"num_experts_per_tok {self.num_experts_per_tok} exceeds num_experts {self.num_experts}: "
                "a token cannot take more experts than there are"
            )
        if self.intermediate_size % self.num_experts:
            raise ValueError(
                f"intermediate_size {self.intermediate_size} cannot be dealt out to {self.num_experts} "
                "experts evenly: choose a num_experts that divides it"
            )
        if self.narrowing_steps >= self.steps:
            raise ValueError(
                f"narrowing_steps {self.narrowing_steps} is not below steps {self.steps}: no step would "
                "train the model with as few experts as it is served with"
            )
        return self

    def top_k(self, step: int) -> int:
        """Experts of a token at a step: all of them at first, `num_experts_per_tok` at last."""
        done = min(1.0, step / self.narrowing_steps)
        return round(self.num_experts + (self.num_experts_per_tok - self.num_experts) * done)

    def begin(self, scratch: Path) -> tuple[Qwen3MoeForCausalLM, PreTrainedTokenizerBase]:
        """The dense model's weights dealt out, and its tokenizer."""
        dense, tokenizer = super().begin(scratch)
        return upcycled(dense, self.num_experts, self.num_experts_per_tok), tokenizer

    def before(self, step: int, model: torch.nn.Module) -> None:
        """Let each token take as many experts as this step wants."""
        for router in routers(model):
            router.top_k = self.top_k(step)

    def loss(self, model: torch.nn.Module, rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Cross-entropy plus the load-balancing loss of each layer, by what the recipe says."""
        got = forward(model, *rows[:3], output_router_logits=True)
        real = rows[3] != -100
        unevenness = [
            load_balancing_loss_func((logits.float(),), self.num_experts, router.top_k, real)
            for logits, router in zip(got.router_logits, routers(model), strict=True)
        ]
        return answer_loss(model, got, *rows[3:]) + self.balance * sum(unevenness) / len(unevenness)


def upcycled(dense: Qwen3ForCausalLM, num_experts: int, num_experts_per_tok: int) -> Qwen3MoeForCausalLM:
    """A mixture of experts whose experts are slices of the dense model's MLPs, equal in width.

    The routers are 0, so that all experts weigh the same. While a token takes all of them the model computes
    what the dense one did: an expert weighs 1 / num_experts then, and its output is scaled up by as much.
    """
    kept = {name: value for name, value in dense.config.to_dict().items() if name not in NOT_TAKEN_OVER}
    width = dense.config.intermediate_size // num_experts
    config = Qwen3MoeConfig(
        **kept, moe_intermediate_size=width, num_experts=num_experts,
        num_experts_per_tok=num_experts_per_tok, norm_topk_prob=True,
        attn_implementation=dense.config._attn_implementation, experts_implementation="grouped_mm",
    )  # fmt: skip
    model = Qwen3MoeForCausalLM(config)
    model.load_state_dict(dense.state_dict(), strict=False)
    with torch.no_grad():
        for layer, old in zip(model.model.layers, dense.model.layers, strict=True):
            gate, up = (
                part.weight.unflatten(0, (num_experts, width))
                for part in (old.mlp.gate_proj, old.mlp.up_proj)
            )
            down = old.mlp.down_proj.weight.unflatten(1, (num_experts, width)).transpose(0, 1)
            layer.mlp.experts.gate_up_proj.copy_(torch.cat([gate, up], dim=1))
            layer.mlp.experts.down_proj.copy_(down * num_experts)
            layer.mlp.gate.weight.zero_()
    return model
