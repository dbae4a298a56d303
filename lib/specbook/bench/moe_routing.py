"""A mixture of experts under transformers: which experts each token takes, with or without router noise.

Imported only where a model is at hand: it needs torch.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

from specbook.errors import ConfigError


def load(folder: Path, router_noise: float = 0.0) -> PreTrainedModel:
    """The model in float32, on the CPU; ConfigError if it has no experts, or the noise is negative."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if not routers(model):
        raise ConfigError(f"{folder.name} is no mixture of experts known here: give a qwen3_moe model")
    disturb(model, router_noise)
    return model


def routers(model: torch.nn.Module) -> list[Qwen3MoeTopKRouter]:
    """Its routers, layer by layer."""
    return [module for module in model.modules() if isinstance(module, Qwen3MoeTopKRouter)]


def disturb(model: torch.nn.Module, strength: float) -> None:
    """Add Gaussian noise to every router's logits, anew for each token, expert and pass, as in the engine.

    `strength` is its standard deviation, in logits: 0 changes nothing, and ConfigError if it is negative.
    """
    if strength < 0:
        raise ConfigError(f"router_noise {strength:g} is negative: a standard deviation is 0 or more")
    if strength == 0:
        return
    generator = torch.Generator().manual_seed(0)

    def choose_again(router: Qwen3MoeTopKRouter, inputs, outputs):
        logits = outputs[0]
        noise = torch.randn(logits.shape, generator=generator).to(logits)
        shares = functional.softmax(logits + strength * noise, dtype=torch.float, dim=-1)
        weights, experts = torch.topk(shares, router.top_k, dim=-1)
        if router.norm_topk_prob:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights.to(logits.dtype), experts

    for router in routers(model):
        router.register_forward_hook(choose_again)


@torch.inference_mode()
def chosen(model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int]) -> NDArray[np.bool_]:
    """[tokens of the answer, layers, experts]: true where a token takes an expert, in the answer's context.

    The model is one of `load`; prompt and answer are token ids.
    """
    taken: list[torch.Tensor] = []
    hooks = [
        router.register_forward_hook(lambda router, inputs, outputs: taken.append(outputs[2]))
        for router in routers(model)
    ]
    model(torch.tensor([[*prompt, *answer]]))
    for hook in hooks:
        hook.remove()
    experts = torch.stack(taken, dim=1)[len(prompt) :]
    return functional.one_hot(experts, model.config.num_experts).any(dim=2).numpy()


@torch.inference_mode()
def logit_spread(model: PreTrainedModel, tokens: Sequence[int]) -> float:
    """Standard deviation of a router's logits over the experts, mean over tokens and layers.

    What a strength of noise is compared with.
    """
    logits = model(torch.tensor([tokens]), output_router_logits=True).router_logits
    return float(torch.stack(list(logits)).std(dim=-1).mean())
