"""A training that may be interrupted: how far it is, its state on disk, and what it leaves when done."""

import json
import pickle
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specbook import paths
from specbook.config.schema import Frozen
from specbook.errors import ConfigError

FILE = "checkpoint.pt"


@dataclass
class Progress:
    """What a training has done so far."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `training.csv`."""

    def add(self, seconds: float, tokens: int) -> None:
        """Count one more step."""
        self.step, self.seconds, self.tokens = self.step + 1, self.seconds + seconds, self.tokens + tokens

    def row(self, loss: float) -> dict[str, Any]:
        """The log's columns that every training has."""
        hours = round(self.seconds / 3600, 4)
        return {"step": self.step, "tokens": self.tokens, "hours": hours, "train": round(loss, 4)}

    def __str__(self) -> str:
        return f"step {self.step}  {self.tokens / 1e6:.2f} M tokens  {self.seconds / 3600:.2f} h"


def save(
    scratch: Path,
    model: torch.nn.Module,
    steppers: Sequence[torch.optim.Optimizer],
    recipe: Frozen,
    made: Progress,
) -> None:
    """Replace the checkpoint in `scratch`: the old one stays whole until the new one is."""
    state = {
        "model": model.state_dict(), "optimizers": [o.state_dict() for o in steppers],
        "recipe": recipe.model_dump(), **asdict(made),
    }  # fmt: skip
    torch.save(state, scratch / "checkpoint.tmp")
    (scratch / "checkpoint.tmp").replace(scratch / FILE)


def resume(
    scratch: Path, model: torch.nn.Module, steppers: Sequence[torch.optim.Optimizer], recipe: Frozen
) -> Progress:
    """Load the checkpoint in `scratch` into model and optimizers; without one, nothing is done yet.

    Raises:
        ConfigError: if it was made with another recipe; only `steps` may differ, to train longer or shorter.
    """
    if not (scratch / FILE).exists():
        return Progress()
    try:
        state = torch.load(scratch / FILE, weights_only=True, map_location="cpu")  # else it could hold code
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ConfigError(f"{scratch / FILE} is no checkpoint: remove it to start anew") from error
    wanted = recipe.model_dump()
    changed = {name for name, value in state.get("recipe", {}).items() if wanted.get(name) != value}
    if changed := changed - {"steps"}:
        raise ConfigError(
            f"{scratch / FILE} has another {', '.join(sorted(changed))}: remove it to start anew"
        )
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(steppers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return Progress(**{name: state[name] for name in ("step", "seconds", "tokens", "log")})


def older(folder: str, scratch: Path) -> Path:
    """A folder to start from: this tree's `models/name`, or an older commit's, unpacked in `scratch`.

    Args:
        folder: `commit:models/name`, as git names it, or a path from the project's root.

    Raises:
        ConfigError: if git does not know it.
    """
    if ":" not in folder:
        return paths.root() / folder
    scratch.mkdir(parents=True, exist_ok=True)
    archive = scratch / "start.tar"
    command = ["git", "archive", "-o", str(archive.resolve()), folder]
    done = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"git has no {folder!r}: {done.stderr.strip()}. Clone with history, or start=None")
    start = scratch / "start"
    start.mkdir(exist_ok=True)
    # Not shutil's: the Python of Debian 12 has no filters yet, and newer ones ask for one.
    subprocess.run(["tar", "-xf", str(archive), "-C", str(start)], check=True)
    return start


def publish(
    out: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Frozen,
    log: Sequence[dict[str, Any]],
) -> None:
    """Write what is served, weights as bfloat16, and beside it the recipe and how training went."""
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_recipe(out, recipe)
    write_curve(out, log)


def publish_part(
    out: Path, file: str, tensors: Mapping[str, torch.Tensor], recipe: Frozen, log: Sequence[dict[str, Any]]
) -> None:
    """Write a part that a served model is made of, and beside it the recipe and how training went."""
    out.mkdir(parents=True, exist_ok=True)
    save_file(dict(tensors), out / file, metadata={"format": "pt"})
    write_recipe(out, recipe)
    write_curve(out, log)


def write_recipe(out: Path, recipe: Frozen) -> None:
    """Write `recipe.json`: a model folder without one is not on the card."""
    (out / "recipe.json").write_text(json.dumps(recipe.model_dump(mode="json"), indent=1) + "\n")


def write_curve(out: Path, log: Sequence[Mapping[str, float]]) -> None:
    """Write `training.csv`: what was logged along training, a row per time."""
    pd.DataFrame(log).to_csv(out / "training.csv", index=False, lineterminator="\n")
