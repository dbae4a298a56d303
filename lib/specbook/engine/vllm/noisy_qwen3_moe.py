"""vLLM's Qwen3MoeForCausalLM with Gaussian noise on its routers' logits. Imported by an engine only."""

from collections.abc import Callable
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.model_executor.models.qwen3_moe import Qwen3MoeForCausalLM, Qwen3MoeSparseMoeBlock


def adding(strength: float) -> Callable[..., Any]:
    """A forward hook: noise of this standard deviation on the logits, the first of what a router returns.

    Drawn anew for each token, expert, layer and pass, from the device's default generator, which vLLM seeds.
    """

    def add(
        router: torch.nn.Module, inputs: Any, outputs: tuple[torch.Tensor, Any]
    ) -> tuple[torch.Tensor, Any]:
        logits, *rest = outputs
        return logits + strength * torch.randn_like(logits), *rest

    return add


class RouterNoiseQwen3MoeForCausalLM(Qwen3MoeForCausalLM):
    """The same model; `router_noise` in its config is the standard deviation of the noise, in logits."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = ""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        strength = vllm_config.model_config.hf_config.router_noise
        for module in self.modules():
            if isinstance(module, Qwen3MoeSparseMoeBlock):
                module.gate.register_forward_hook(adding(strength))
