"""Noise in the router of a mixture of experts: how a server is told, and what must be there for it.

vLLM knows the model class by its own door for plugins, an entry point that `pip install` writes down; nothing
of vLLM is changed. The class itself is in `noisy_qwen3_moe`, which only an engine imports.
"""

import json
import os
from importlib import metadata

from specbook.config.checkpoint import read_config
from specbook.config.schema import Target
from specbook.engine.preflight import local_folder

GROUP, PLUGIN = "vllm.general_plugins", "specbook_router_noise"
"""The entry point in pyproject.toml."""
ARCHITECTURE, OF = "RouterNoiseQwen3MoeForCausalLM", "Qwen3MoeForCausalLM"
"""The class with noise, and the one that it is made of."""


def register() -> None:
    """Make the class known; vLLM calls this in each of its processes."""
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"{__package__}.noisy_qwen3_moe:{ARCHITECTURE}")


def overrides(target: Target) -> str | None:
    """The value of `--hf-overrides` that asks for the target's noise; None where there is none."""
    if not target.router_noise:
        return None
    return json.dumps({"architectures": [ARCHITECTURE], "router_noise": target.router_noise})


def refusal(target: Target) -> str | None:
    """Why this target cannot be served with noise, and what to do; None when it can, or has none."""
    if not target.router_noise:
        return None
    plugins = {point.name for point in metadata.entry_points(group=GROUP)}
    allowed = os.environ.get("VLLM_PLUGINS")
    if PLUGIN not in plugins:
        return (
            f"router_noise {target.router_noise:g} needs the plugin {PLUGIN!r}, which is not installed: run "
            "`pip install --no-deps -e .` in the project"
        )
    if allowed is not None and PLUGIN not in allowed.split(","):
        return f"router_noise {target.router_noise:g} needs the plugin {PLUGIN!r}: add it to VLLM_PLUGINS"
    folder = local_folder(target.model)
    built = read_config(folder).get("architectures") if folder else [OF]
    if built != [OF]:
        return f"router_noise is for {OF}, and {target.model} is {built}: set it to 0"
    return None
