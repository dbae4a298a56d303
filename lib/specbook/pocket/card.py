"""`models/card.md`: what the pocket models are, written from what training left beside the weights."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open

from specbook import paths, provenance
from specbook.estimate import Estimate
from specbook.pocket import quality
from specbook.pocket.corpus import DOMAINS

INTRO = """\
The book's embedded default: small models with real weights, trained by this project from nothing, so that
every claim about acceptance can be checked on a laptop. They are good at four narrow tasks and at nothing
else.

| domain | task | stands for | judged by |
|---|---|---|---|
| `json` | extract an order as JSON | structured extraction | the parsed object equals the reference |
| `math` | word problems with worked steps | GSM8K | the number after `####` equals the reference |
| `chat` | explain code from its docstring | MT-Bench, ShareGPT | the answer names it and its kind |
| `code` | complete a standard library function | HumanEval | prompt and answer parse as one function |

The last two checks are weak: they show that the output is well-formed, not that it is right.
"""

DATA = """\
**Data.** `math` and `json` come from templates in `lib/specbook/pocket/corpus/`, without end. `code` and
`chat` come from the source and docstrings of the CPython standard library that ran the training (PSF licence
2.0). No other text is used. The held-out prompts in `models/heldout/` were never trained on, in any wording.

**Licence.** Weights and prompts: Apache-2.0, as the project; what prompts quote from CPython: PSF 2.0.
"""


def write() -> Path:
    """Write the card from `recipe.json`, `training.csv` and `quality.json` of every model folder."""
    folders = sorted(p.parent for p in paths.models_dir().glob("*/recipe.json"))
    sections = [line for folder in folders for line in _model(folder)]
    path = paths.models_dir() / "card.md"
    path.write_text("\n".join(["# Model card", "", INTRO, DATA, *sections]) + "\n")
    return path


def _model(folder: Path) -> Iterator[str]:
    recipe = json.loads((folder / "recipe.json").read_text())
    with safe_open(folder / "model.safetensors", "pt") as weights:
        count = sum(_size(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    size = (folder / "model.safetensors").stat().st_size
    yield f"## {folder.name}\n"
    yield f"- Parameters stored: {count / 1e6:.1f} M, {size / 1e6:.1f} MB"
    yield f"- SHA-256 of the weights: `{provenance.model_sha256(f'models/{folder.name}', None)[:16]}...`"
    yield f"- Recipe (seeds included): {', '.join(f'`{k}={v}`' for k, v in recipe.items())}\n"
    if (folder / "training.csv").exists():
        yield from _curve(folder / "training.csv")
    if (folder / "quality.json").exists():
        yield from _quality(folder)


def _size(shape: list[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def _curve(path: Path) -> Iterator[str]:
    with path.open(newline="") as file:
        log = list(csv.DictReader(file))
    keep = log[:: max(1, len(log) // 10)]
    shown = keep if keep[-1] is log[-1] else [*keep, log[-1]]
    yield f"Losses in nats per token, along training (`{path.name}` holds every row):\n"
    yield "| " + " | ".join(log[0]) + " |"
    yield "|" + "---|" * len(log[0])
    yield from ("| " + " | ".join(row.values()) + " |" for row in shown)
    yield ""


def _quality(folder: Path) -> Iterator[str]:
    found = quality.load(folder)
    yield "Greedy answers to the held-out prompts, bfloat16, shares with their 95 % Wilson interval:\n"
    yield "| domain | n | passed the check | stopped by itself | looped | mean tokens |"
    yield "|---|---|---|---|---|---|"
    for domain in DOMAINS:
        q = found[domain]
        shares = " | ".join(_percent(e) for e in (q.passed, q.stopped, q.looped))
        yield f"| `{domain}` | {q.passed.n} | {shares} | {q.mean_output_tokens:.0f} |"
    yield ""


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.0%} [{estimate.low:.0%}, {estimate.high:.0%}]"
