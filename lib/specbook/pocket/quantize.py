"""An INT8 copy of a pocket model: weights by output channel, activations by token as they come (W8A8).

That is what vLLM 0.32's CPU build multiplies as integers on every processor (oneDNN, or AMX tiles where there
are any). INT4 weights, in AWQ's, GPTQ's or compressed-tensors' packing, it widens first where there are none.
Sources: vllm/model_executor/kernels/linear/scaled_mm/cpu.py and mixed_precision/cpu.py. The file's format is
compressed-tensors' `int-quantized`. Rounding to nearest, no calibration: the least that a recipe can do.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specbook.errors import ConfigError

LINEAR = re.compile(r"\.layers\.\d+\.(?:self_attn|mlp)\.\w+_proj\.weight$")
"""What is narrowed: the layers' matrices. Embeddings, output head and norms stay as they are."""
LARGEST = 127
WEIGHTS = "model.safetensors"


def copied(source: Path, out: Path) -> None:
    """Put all of a model folder into `out` but its weights and what was said of them.

    Raises:
        ConfigError: if `source` holds no such model.
    """
    if not (source / WEIGHTS).is_file():
        raise ConfigError(f"{source} has no {WEIGHTS}: train the model first (`specbook train target`)")
    shutil.rmtree(out, ignore_errors=True)
    leave = shutil.ignore_patterns(WEIGHTS, "quality.json", "training.csv", "recipe.json")
    shutil.copytree(source, out, ignore=leave)


def int8(source: Path, out: Path) -> Path:
    """Write the copy of the model in `source` into `out`, in place of what lies there; returns `out`.

    Raises:
        ConfigError: if `source` holds no such model.
    """
    copied(source, out)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    text = json.dumps({**config, "quantization_config": scheme()}, indent=2)
    (out / "config.json").write_text(text + "\n", encoding="utf-8")
    save_file(narrowed(load_file(source / WEIGHTS)), out / WEIGHTS, metadata={"format": "pt"})
    return out


def narrowed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors, each matrix [out, in] of LINEAR as int8 with its `weight_scale` [out, 1] (float32)."""
    found = {}
    for name, tensor in tensors.items():
        if not LINEAR.search(name):
            found[name] = tensor
            continue
        wide = tensor.float()
        scale = wide.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
        found[name] = (wide / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8)
        found[f"{name}_scale"] = scale
    return found


def scheme() -> dict[str, Any]:
    """The `quantization_config` of the copy, in compressed-tensors' words."""
    eight = {"num_bits": 8, "type": "int", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**eight, "strategy": "channel", "dynamic": False},
        "input_activations": {**eight, "strategy": "token", "dynamic": True},
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": group}, "ignore": ["lm_head"],
    }  # fmt: skip
