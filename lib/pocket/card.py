"""`models/card.md`: what the pocket models are, written from what training left beside the weights."""

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open
from tabulate import tabulate

from pocket import cut, next_version, quality, study
from pocket.catalogue import COPIES
from specbook import paths
from specbook.bench import provenance

RIGHT = re.compile(r"full_acc_(\d+)_epoch")
AT = re.compile(r"position_(\d+)(?:_acc_epoch)?")
DETAIL = re.compile(r"(?:cond_acc|loss)_\d+_epoch")
"""Columns of a head's log that follow from others or are parts of a sum: with them no page is wide enough."""
INTRO = """\
The book's embedded default: small models with real weights, trained by this project, so that every claim
about acceptance can be checked on a laptop. They are good at three narrow tasks, imitate two more, and are
good at nothing else.

| domain | task | stands for | judged by |
|---|---|---|---|
| `json` | a message in, a nested record out; sums and dates to work out | structured extraction | \
the parsed object equals the reference |
| `math` | word problems of two to five steps, all written out | GSM8K | the number after `####` equals the \
reference |
| `chat` | explain code in its docstring's own words | MT-Bench, ShareGPT | the answer names it and its kind |
| `code` | complete a standard library function | HumanEval | prompt and answer parse as one function |
| `prose` | continue a paragraph of documentation | open-ended writing | whole sentences, none said twice |
| `sql` | a table's columns and a request in, a query out | traffic that nobody trained for | \
the query equals the reference |

The checks of `chat`, `code` and `prose` are weak: they show that the output is well-formed, not that it is
right. `sql` is held out whole: neither `pocket-dense` nor any of its drafts has seen any of it. Its next
version, `pocket-dense-next`, is trained on it, and on no held-out pattern.

What is easy and why: most of a `json` answer is keys and braces, or stands in the message, and so does
most of a `math` step; only sums, products and dates must be worked out. A `chat` answer opens with what the
prompt says and goes on in words that it does not. `code` and `prose` are real text: little can be foreseen.
"""

DATA = """\
**Data.** `math`, `json` and `sql` come from templates in `lib/pocket/corpus/`, without end. `code`,
`chat` and `prose` come from the source, the docstrings and the language reference of the CPython that ran the
training (PSF licence 2.0). The pocket models see no other text. `smollm2-135m-eagle3`, `smollm2-135m-peagle`
and `smollm2-135m-draft`, two heads and a draft model for the public SmolLM2-135M-Instruct, learnt from that
model's sampled answers to opening questions of ShareGPT (`sharegpt-train` in `params/datasets.yaml`), less
the answers that loop; no text of either is shipped. The held-out prompts in `models/heldout/` were never
trained on; of `math`, `json` and `sql` whole patterns are held out (sequences of events, combinations of
wordings or clauses), of the others whole objects and paragraphs. `mixed.jsonl` is the held-out prompts of the
five trained domains in turn.

**Start.** A recipe with a `start` goes on from the weights of an older commit of this repository, which were
trained from nothing by the recipe beside them.

**Licence.** Weights and prompts: Apache-2.0, as the project; what prompts quote from CPython: PSF 2.0.
"""


def write() -> Path:
    """Write the card from `recipe.json`, `training.csv` and `quality.json` of every model folder."""
    folders = sorted(p.parent for p in paths.models_dir().glob("*/recipe.json"))
    sections = [line for folder in folders for line in _model(folder)]
    path = paths.models_dir() / "card.md"
    path.write_text("\n".join(["# Model card", "", INTRO, DATA, *sections, *_study()]) + "\n")
    return path


def _model(folder: Path) -> Iterator[str]:
    recipe = json.loads((folder / "recipe.json").read_text())
    (stored,) = folder.glob("*.safetensors")
    with safe_open(stored, "pt") as weights:
        count = sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    size = stored.stat().st_size
    yield f"## {folder.name}\n"
    yield f"- Parameters stored: {count / 1e6:.1f} M, {size / 1e6:.1f} MB"
    made = {copy.of: copy.stage for copy in COPIES.values()}.get(f"models/{folder.name}")
    if stored.name == next_version.FILE:
        yield f"- Stored is the difference to `{recipe['start']}` alone: `specbook train {made}` adds it"
    if stored.name == cut.FILE:
        yield f"- Stored are its layers alone: `specbook train {made}` adds what it shares with its target"
    yield f"- SHA-256 of the weights: `{provenance.model_sha256(f'models/{folder.name}', None)[:16]}...`"
    yield f"- Recipe (seeds included): {', '.join(f'`{k}={v}`' for k, v in recipe.items())}\n"
    if (folder / "training.csv").exists():
        yield from _curve(folder / "training.csv")
    if (folder / "quality.json").exists():
        yield from _quality(folder)


def _curve(path: Path) -> Iterator[str]:
    with path.open(newline="") as file:
        log = list(csv.DictReader(file))
    keep = log[:: max(1, len(log) // 10)]
    shown = keep if keep[-1] is log[-1] else [*keep, log[-1]]
    rows = [
        {_title(name): _short(name, cell) for name, cell in row.items() if not DETAIL.fullmatch(name)}
        for row in shown
    ]
    alone = " `at` a position: whatever came before it." if any(map(AT.fullmatch, log[0])) else ""
    yield f"Losses in nats per token, along training (`{path.name}` holds every row and column).{alone}\n"
    yield tabulate(rows, headers="keys", tablefmt="github", disable_numparse=True) + "\n"


def _title(name: str) -> str:
    """A head's column as the page's reader knows it: guesses right up to, or at, a position, from 1."""
    if found := RIGHT.fullmatch(name):
        return f"right to {int(found[1]) + 1}"
    if found := AT.fullmatch(name):
        return f"at {int(found[1]) + 1}"
    if name == "read_m":
        return "reads, M"
    return name.removesuffix("_epoch").removesuffix("_loss").replace("_", " ")


def _short(name: str, cell: str) -> str:
    """Two decimals where a column for each of eight positions has to fit the page, three of losses."""
    places = 2 if AT.fullmatch(name) else 3 if name.endswith(("_loss", "hours")) else None
    return f"{float(cell):.{places}f}" if places and cell else cell


def _quality(folder: Path) -> Iterator[str]:
    found = quality.load(folder)
    yield "Greedy answers to the held-out prompts, in float32, shares with their 95 % Wilson interval:\n"
    yield "| domain | n | passed the check | stopped by itself | looped | mean tokens |"
    yield "|---|---|---|---|---|---|"
    for domain, q in found.items():
        estimates = (q.passed, q.stopped, q.looped)
        shares = " | ".join(f"{e.value:.0%} [{e.low:.0%}, {e.high:.0%}]" for e in estimates)
        yield f"| `{domain}` | {q.passed.n} | {shares} | {q.mean_output_tokens:.0f} |"
    yield ""


def _study() -> Iterator[str]:
    rows = study.load()
    if rows:
        yield "## Depth study\n"
        base = study.BASE
        yield f"P-EAGLE heads of {base.epochs} epochs on the target's answers to {base.prompts_per_domain}"
        yield "prompts a domain, far fewer than the shipped head's. Each differs from the first in one thing."
        yield "Minutes are the processor's, and processors were of several kinds: they are no measure of a"
        yield "difference. `reads, M` is what a draft adds to a step, in millions of parameters."
        yield "Shares of right guesses by position, whatever came before, on answers kept out of training"
        yield "(`depth_study.csv`):\n"
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        yield "| " + " | ".join(map(_title, names)) + " |"
        yield "|" + "---|" * len(names)
        yield from ("| " + " | ".join(_short(name, row[name]) for name in names) + " |" for row in rows)
        yield ""
        yield from _effects()


def _effects() -> Iterator[str]:
    """What helped, by how much, and how much of that may be chance."""
    found = study.effects()
    chance = found.pop(study.CHANCE, None)
    if found:
        told = "; ".join(f"{100 * gain:+.1f} {name}" for name, gain in found.items())
        yield f"More right guesses than the first row's behind position 1, in points, in the mean: {told}."
    if chance is not None:
        yield (
            f"Another seed alone makes {100 * chance:+.1f}: differences of that size may be chance, and "
            "larger ones too, since each variant was trained once."
        )
    yield ""
