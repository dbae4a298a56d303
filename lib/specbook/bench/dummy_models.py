"""Folders that a server can load with random weights: a real model's config.json, and a tokenizer of ours.

`params/models/` has the shapes of models whose weights nobody needs to have here. What is asked of them is
how long a step takes, so the pocket models' tokenizer will do: its prompts are tokens like any others.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specbook import paths
from specbook.config import models
from specbook.config.models import SHAPES

TOKENIZER = "models/pocket-dense"
OF_A_TOKENIZER = ("tokenizer*", "chat_template*", "special_tokens_map.json")


def make(wanted: Iterable[str]) -> list[Path]:
    """Write those of these models, named as plans name them, that are shapes; returns their folders.

    Raises:
        ConfigError: if a model file that is asked for cannot be used.
    """
    made = []
    for name in dict.fromkeys(wanted):
        if Path(name).parent == Path(SHAPES):
            made.append(_write(paths.root() / name, models.shape(Path(name).name)))
    return made


def _write(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for pattern in OF_A_TOKENIZER:
        for file in (paths.root() / TOKENIZER).glob(pattern):
            shutil.copy(file, folder)
    return folder
