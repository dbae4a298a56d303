"""A draft model cut out of its target: a few of its layers, trained on to guess what all of them say.

Embeddings and output head stay the target's, so it speaks the same vocabulary, and ships as its layers alone:
matrices as INT8 with a scale for each output channel, half as large as in bfloat16.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from pocket import checkpoint
from pocket.outputs import OutputsRecipe
from pocket.quantize import WEIGHTS, Tensors, copied, narrowed
from pocket.target import TrainingRecipe, starting_point
from specbook import paths
from specbook.bench import provenance
from specbook.errors import ConfigError

FILE = "layers.safetensors"
LEARNS = re.compile(r"model\.(layers\.|norm\.)")
"""What is trained and ships, of a model's tensors."""
SCALE = "_scale"


class CutRecipe(TrainingRecipe, OutputsRecipe):
    """Which of the target's layers are kept, and the answers that they learn from."""

    start: str
    start_sha256: str
    """SHA-256 of the target's weights: the layers fit no other embeddings."""
    layers: tuple[int, ...] = Field(min_length=1)
    """Of the target, from 0, in their order."""
    rows: int = 4
    row_tokens: int = 1024

    def begin(self, scratch: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The target less the other layers; its embeddings, and with them the output head, are fixed.

        Raises:
            ConfigError: if the target has no such layers.
        """
        model, tokenizer = starting_point(self, scratch)
        last = len(model.model.layers) - 1
        if not all(0 <= i <= last for i in self.layers):
            raise ConfigError(f"layers {self.layers}: this target's are 0 to {last}")
        model.model.layers = torch.nn.ModuleList(model.model.layers[i] for i in self.layers)
        model.model.embed_tokens.requires_grad_(False)
        return model, tokenizer

    def before(self, step: int, model: PreTrainedModel) -> None:
        """The target is loaded by one thread, before several read it."""
        _target(self.start, model.device.type)

    def loss(self, model: PreTrainedModel, rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Divergence of its distribution from the target's (Kullback-Leibler), nats per answer token."""
        ids, mask, positions, _, weights = rows
        counted = weights > 0
        got = model.model(input_ids=ids, attention_mask=mask, position_ids=positions).last_hidden_state
        drafted, wanted = (
            model.lm_head(states).log_softmax(dim=1)
            for states in (got[counted], self._wanted(ids, positions)[counted])
        )
        each = functional.kl_div(drafted, wanted, log_target=True, reduction="none").sum(dim=1)
        return (each * weights[counted]).sum() / weights.sum()

    def _wanted(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """What the target's output head reads at each token of these rows; 0 where a row is padded."""
        rows = []
        for row, at in zip(ids, positions, strict=True):
            starts = [*(at == 0).nonzero().flatten().tolist(), len(row)]
            # A pad token has position 0 too: what is one token long is no prompt with its answer.
            spans = [tuple(row[a:b].tolist()) for a, b in pairwise(starts)]
            parts = [_states(self.start, ids.device.type, span) for span in spans if len(span) > 1]
            whole = torch.cat(parts)
            rows.append(functional.pad(whole, (0, 0, 0, len(row) - len(whole))))
        return torch.stack(rows)

    def publish(
        self,
        out: Path,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        log: Sequence[dict[str, Any]],
    ) -> None:
        """Write the layers alone, and beside them this recipe and how training went."""
        kept = {name: tensor.bfloat16() for name, tensor in model.state_dict().items() if LEARNS.match(name)}
        checkpoint.publish_part(out, FILE, narrowed(kept), self, log)


@cache  # each answer is read once, and learnt from several times
def _states(folder: str, device: str, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.no_grad():
        return _target(folder, device).model(torch.tensor([ids], device=device)).last_hidden_state[0]


@cache
def _target(folder: str, device: str) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(paths.root() / folder, dtype=torch.float32)
    return model.to(device).eval()


def copy(target: Path, shipped: Path, out: Path) -> Path:
    """Write the draft model into `out`, in place of what lies there.

    Args:
        target: folder of the model that it was cut out of.
        shipped: folder of its layers.
        out: a model folder, readable by transformers and vLLM.

    Raises:
        ConfigError: if there are no such layers, or they were cut out of another model.
    """
    again = "`specbook train smollm2-draft`"
    if not (shipped / FILE).is_file():
        raise ConfigError(f"{shipped} has no {FILE}: train the draft model first ({again})")
    recipe = json.loads((shipped / "recipe.json").read_text(encoding="utf-8"))
    if provenance.model_sha256(str(target), None) != recipe["start_sha256"]:
        raise ConfigError(
            f"{shipped / FILE} was cut out of another model than {target}: train again ({again})"
        )
    copied(target, out)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    config["num_hidden_layers"] = len(recipe["layers"])
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][i] for i in recipe["layers"]]
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    rest = {name: tensor for name, tensor in load_file(target / WEIGHTS).items() if not LEARNS.match(name)}
    save_file(rest | widened(load_file(shipped / FILE)), out / WEIGHTS, metadata={"format": "pt"})
    return out


def widened(tensors: Tensors) -> Tensors:
    """The tensors in bfloat16, as `quantize.narrowed` had them but for its rounding."""
    return {
        name: (tensor.float() * tensors[name + SCALE]).bfloat16() if name + SCALE in tensors else tensor
        for name, tensor in tensors.items() if not name.endswith(SCALE)
    }  # fmt: skip
