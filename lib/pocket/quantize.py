"""Narrow copies of a pocket model. INT8: weights by output channel, activations by token as they come (W8A8).
INT4: weights by group, activations as they are (W4A16).

INT8 is what vLLM 0.32's CPU build multiplies as integers on every processor (oneDNN, or AMX tiles where there
are any). INT4 weights, in AWQ's, GPTQ's or compressed-tensors' packing, it widens first where there are none.
Sources: vllm/model_executor/kernels/linear/scaled_mm/cpu.py and mixed_precision/cpu.py. The files' formats
are compressed-tensors' `int-quantized` and `pack-quantized`. Rounding to nearest, no calibration: the least
that a recipe can do.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specbook.errors import ConfigError

LINEAR = re.compile(r"\.layers\.\d+\.(?:self_attn|mlp)\.\w+_proj\.weight$")
"""What is narrowed: the layers' matrices. Embeddings, output head and norms stay as they are."""
LARGEST = 127
GROUP = 64
"""Weights of one output channel that share a scale in INT4; it divides the inputs of every such matrix."""
PACKED = 8
"""INT4 weights in one int32, the first in its lowest bits."""
Tensors = dict[str, torch.Tensor]
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
    eight = {"num_bits": 8, "type": "int", "symmetric": True}
    weights = {**eight, "strategy": "channel", "dynamic": False}
    activations = {**eight, "strategy": "token", "dynamic": True}
    return _narrow(source, out, narrowed, _scheme("int-quantized", weights, activations))


def int4(source: Path, out: Path) -> Path:
    """As `int8`, with INT4 weights."""
    four = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP}
    return _narrow(source, out, packed, _scheme("pack-quantized", {**four, "dynamic": False}, None))


def _narrow(source: Path, out: Path, how: Callable[[Tensors], Tensors], said: dict[str, Any]) -> Path:
    copied(source, out)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    text = json.dumps({**config, "quantization_config": said}, indent=2)
    (out / "config.json").write_text(text + "\n", encoding="utf-8")
    save_file(how(load_file(source / WEIGHTS)), out / WEIGHTS, metadata={"format": "pt"})
    return out


def narrowed(tensors: Tensors) -> Tensors:
    """The tensors, each matrix [out, in] of LINEAR as int8 with its `weight_scale` [out, 1] (float32)."""
    return _matrices(tensors, _eight_bits)


def packed(tensors: Tensors) -> Tensors:
    """The tensors, each matrix [out, in] of LINEAR in three: `weight_packed` [out, in / PACKED] (int32),
    `weight_scale` [out, in / GROUP] (bfloat16) and `weight_shape` [2].
    """
    return _matrices(tensors, _four_bits)


def _matrices(tensors: Tensors, how: Callable[[torch.Tensor], Tensors]) -> Tensors:
    """The tensors, each of LINEAR replaced by what `how` makes of it, by what its name then ends with."""
    found = {}
    for name, tensor in tensors.items():
        made = how(tensor) if LINEAR.search(name) else {"": tensor}
        found |= {f"{name}{ending}": part for ending, part in made.items()}
    return found


def _eight_bits(matrix: torch.Tensor) -> Tensors:
    wide = matrix.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
    return {"": (wide / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), "_scale": scale}


def _four_bits(matrix: torch.Tensor) -> Tensors:
    wide = matrix.float().unflatten(1, (-1, GROUP))
    scale = (wide.abs().amax(dim=2) / 7).clamp(min=torch.finfo(torch.bfloat16).tiny).bfloat16()
    four = (wide / scale.float()[..., None]).round().clamp(-8, 7).to(torch.int64).flatten(1)
    places = 4 * torch.arange(PACKED)
    words = ((four + 8).unflatten(1, (-1, PACKED)) << places).sum(dim=2).to(torch.int32)
    return {"_packed": words, "_scale": scale, "_shape": torch.tensor(matrix.shape)}


def _scheme(form: str, weights: dict[str, Any], activations: dict[str, Any] | None) -> dict[str, Any]:
    """The `quantization_config` of a copy, in compressed-tensors' words."""
    group = {
        "targets": ["Linear"], "weights": weights, "input_activations": activations,
        "output_activations": None,
    }  # fmt: skip
    return {
        "quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
        "config_groups": {"group_0": group}, "ignore": ["lm_head"],
    }  # fmt: skip
