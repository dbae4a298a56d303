"""Train a plain draft model: the target's tokenizer, few layers, learnt from the target's own answers.

The layers are new ones, or some of the target's (`cut`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from pocket import loop, outputs
from pocket.cut import CutRecipe
from pocket.outputs import OutputsRecipe
from pocket.target import TargetRecipe
from specbook import paths
from specbook.config.schema import Target


class DraftModelRecipe(TargetRecipe, OutputsRecipe):
    """A target's recipe, but shallow, and the answers it learns from; `shares` are unused."""

    num_hidden_layers: int = 2
    start: None = None
    rows: int = 8
    steps: int = 600
    prompt_weight: float = 0.05


def train(
    target: Target,
    recipe: DraftModelRecipe | CutRecipe,
    scratch: Path,
    out: Path,
    device: str = "cpu",
    report: Callable[[str], None] = print,
    workers: int = 1,
) -> dict[str, Any]:
    """Train, and write a model folder as `loop.train` does; its tokenizer is the target's.

    Raises:
        ConfigError: if the checkpoint in `scratch` was made with another recipe.
        EngineError: if the target cannot be served, where it has not answered the prompts yet.
    """
    report(f"{out.name}: the target answers the training prompts")
    answered = outputs.target_outputs(target, recipe, scratch)
    tokenizer = None if recipe.start else AutoTokenizer.from_pretrained(paths.root() / target.model)
    return loop.train(
        recipe, out, scratch / out.name, device, report, workers,
        samples=outputs.endless(answered, recipe.seed), tokenizer=tokenizer,
    )  # fmt: skip
