"""The target's next version: trained on for new traffic, and shipped as a small difference to the one before.

The difference to each of the layers' matrices is a product of two narrow ones (LoRA, Hu et al. 2021,
arXiv:2106.09685); everything else stays. Old traffic is rehearsed, or it would be forgotten.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch.nn.utils import parametrize
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from pocket import checkpoint
from pocket.corpus import DOMAINS, UNSEEN
from pocket.quantize import LINEAR, WEIGHTS, copied
from pocket.target import TargetRecipe
from specbook.bench import provenance
from specbook.errors import ConfigError

FILE = "difference.safetensors"
NARROW = re.compile(r"(.+)\.parametrizations\.weight\.0\.(up|down)")


class NextRecipe(TargetRecipe):
    """A target's recipe, the width of the difference, and what it is the difference to."""

    may_see: ClassVar[Sequence[str]] = (*DOMAINS, *UNSEEN)

    start: str = "models/pocket-dense"
    start_sha256: str = ""
    """SHA-256 of the start's weights: the difference fits no others."""
    rank: int = Field(default=8, ge=1)
    shares: dict[str, float] = Field(
        default={"code": 0.1, "chat": 0.1, "math": 0.15, "json": 0.15, "prose": 0.1, "sql": 0.4}
    )
    """Share of each domain in the examples: the new one, and the others so that they are not forgotten."""
    steps: int = 420

    def begin(self, scratch: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerBase]:
        """The version before, its weights fixed, with a difference that is 0."""
        model, tokenizer = super().begin(scratch)
        torch.manual_seed(self.seed)
        return widened(model, self.rank), tokenizer

    def publish(
        self,
        out: Path,
        model: Qwen3ForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
        log: Sequence[dict[str, Any]],
    ) -> None:
        """Write the difference alone (bfloat16), and beside it this recipe and how training went."""
        checkpoint.publish_part(out, FILE, difference(model), self, log)


class LowRank(torch.nn.Module):
    """A matrix [out, in] plus `up` [out, rank] times `down` [rank, in]; `up` is 0 at first."""

    def __init__(self, weight: torch.Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.up = torch.nn.Parameter(torch.zeros(rows, rank))
        self.down = torch.nn.Parameter(torch.randn(rank, columns) / math.sqrt(columns))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The matrix that the layer multiplies by."""
        return weight + self.up @ self.down


def widened(model: Qwen3ForCausalLM, rank: int) -> Qwen3ForCausalLM:
    """The model with a `LowRank` on each of its layers' matrices, and nothing else that learns."""
    model.requires_grad_(False)
    for name, weight in list(model.named_parameters()):
        if LINEAR.search(name):
            layer = model.get_submodule(name.removesuffix(".weight"))
            parametrize.register_parametrization(layer, "weight", LowRank(weight, rank))
    return model


def difference(model: Qwen3ForCausalLM) -> dict[str, torch.Tensor]:
    """What a `widened` model learnt, in bfloat16: `<matrix>.up` and `<matrix>.down`."""
    found = ((NARROW.fullmatch(name), tensor) for name, tensor in model.state_dict().items())
    return {f"{hit[1]}.{hit[2]}": tensor.cpu().bfloat16().contiguous() for hit, tensor in found if hit}


def merged(base: Mapping[str, torch.Tensor], learnt: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The next version's weights, in the precision of `base`.

    Added up column by column in float64: a matrix product adds in an order of the processor's own, and the
    digest of what is served would be another on each machine.
    """
    found = dict(base)
    for name in (name.removesuffix(".up") for name in learnt if name.endswith(".up")):
        weight = base[f"{name}.weight"]
        up, down = (learnt[f"{name}.{side}"].double() for side in ("up", "down"))
        wide = weight.double()
        for i in range(up.shape[1]):
            wide = wide + up[:, i, None] * down[None, i]
        found[f"{name}.weight"] = wide.to(weight.dtype)
    return found


def copy(source: Path, shipped: Path, out: Path) -> Path:
    """Write the next version of the model in `source` into `out`, in place of what lies there.

    Args:
        source: the version before.
        shipped: folder of the difference.
        out: a model folder, readable by transformers and vLLM.

    Raises:
        ConfigError: if there is no difference, or it is one to other weights.
    """
    if not (shipped / FILE).is_file():
        raise ConfigError(f"{shipped} has no {FILE}: train the next version first (`specbook train next`)")
    wanted = json.loads((shipped / "recipe.json").read_text(encoding="utf-8"))["start_sha256"]
    if provenance.model_sha256(str(source), None) != wanted:
        raise ConfigError(
            f"{shipped / FILE} is the difference to other weights than {source} holds: train the next "
            "version again (`specbook train next`)"
        )
    copied(source, out)
    weights = merged(load_file(source / WEIGHTS), load_file(shipped / FILE))
    save_file(weights, out / WEIGHTS, metadata={"format": "pt"})
    return out
