"""The depth study: P-EAGLE heads that differ in one thing each, and a table of what each was worth."""

import csv
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from pocket.draft import PEagleRecipe
from pocket.train import EAGLE3
from specbook import paths

BASE = PEagleRecipe(prompts_per_domain=100, epochs=3)
CHANCE = "another seed"
"""A difference no larger than this one's is chance."""
VARIANTS: Mapping[str, dict[str, Any]] = {
    "base: 4 layers, depth 8": {},
    CHANCE: {"seed": 1},
    "grown from EAGLE-3 (1500 answers)": {"start": EAGLE3},
    "hidden states not normalised": {"norm_before_fc": False},
    "2 layers": {"num_layers": 2},
    "6 layers": {"num_layers": 6},
    "rows of 1024 tokens": {"total_seq_len": 1024},
    "every position kept": {"down_sample_ratio": 1.0, "down_sample_ratio_min": 1.0},
    "fewer positions kept": {"down_sample_ratio": 0.7, "down_sample_ratio_min": 0.2},
    "twice the answers": {"prompts_per_domain": 200},
    "twice the epochs": {"epochs": 6},
    "loss of what is accepted (LK hybrid)": {"loss_fn": "lk_hybrid"},
    "five layers of hidden states": {"target_layer_ids": (2, 7, 12, 17, 21)},
    "depth 12": {"num_depths": 12},
    "depth 16": {"num_depths": 16},
}
"""What is changed of `BASE`; one thing at a time."""
SHOWN = (0, 1, 2, 3, 5, 7, 11, 15)
"""Positions in the table; empty where a head is not that deep."""
BEHIND = tuple(f"position_{d}" for d in SHOWN if 0 < d < BASE.num_depths)
"""Those behind the first that every head has: drafting all at once is about these."""


EMBEDDING, OUTPUT = "embed_tokens.weight", "lm_head.weight"


def path() -> Path:
    """The table; only what was really trained is in it."""
    return paths.models_dir() / "depth_study.csv"


def run(train: Callable[[PEagleRecipe], Path], report: Callable[[str], None]) -> Path:
    """Train each variant that the table lacks, and add its row as soon as it is done.

    Args:
        train: trains a head and returns its folder, with `training.csv` in it.
        report: called with a line for each variant.
    """
    done = {row["variant"] for row in load()}
    for variant, change in VARIANTS.items():
        if variant not in done:
            report(f"study: {variant}")
            started = time.process_time()
            folder = train(BASE.model_copy(update=change))
            _append(row_of(variant, folder, time.process_time() - started))
    return path()


def row_of(variant: str, folder: Path, seconds: float) -> dict[str, Any]:
    """A row: the processor's time, the parameters that a draft reads in millions, and per position the share
    of right guesses in the last validation.

    These shares are marginal (right at this depth, whatever came before), so serving accepts more than their
    products.
    """
    with (folder / "training.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    shares = {f"position_{d}": last.get(f"position_{d}_acc_epoch", "") for d in SHOWN}
    return {"variant": variant, "minutes": round(seconds / 60, 1), "read_m": _read_m(folder), **shares}


def _read_m(folder: Path) -> float:
    """Millions of parameters that a draft reads: no embedding, of which a step looks up a few rows, and the
    output matrix also where the target lends it."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
    config = json.loads((folder / "config.json").read_text())
    lent = {OUTPUT: [config["draft_vocab_size"], config["transformer_layer_config"]["hidden_size"]]}
    read = lent | {name: shape for name, shape in shapes.items() if name != EMBEDDING}
    return round(sum(map(math.prod, read.values())) / 1e6, 2)


def effects() -> dict[str, float]:
    """By how much each variant is right more often than the first, in the mean over BEHIND; best first."""
    base, *others = load()
    found = {row["variant"]: _behind(row) - _behind(base) for row in others}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def _behind(row: Mapping[str, str]) -> float:
    return sum(float(row[name]) for name in BEHIND) / len(BEHIND)


def load() -> list[dict[str, str]]:
    """The rows so far, in the order of VARIANTS."""
    if not path().exists():
        return []
    with path().open(newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: list(VARIANTS).index(row["variant"]))


def _append(row: Mapping[str, Any]) -> None:
    new = not path().exists()
    with path().open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
