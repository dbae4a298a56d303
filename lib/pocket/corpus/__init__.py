"""Kinds of prompts and answers, from CPython's own library and documentation and from templates.

Five are trained on, one is held out whole, and one is the held-out prompts of those five in turn.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pocket.corpus import chat, code, json_records, math, prose, sql
from pocket.corpus.example import Example

DOMAINS = ("code", "chat", "math", "json", "prose")
"""What the target and its heads are trained on."""
UNSEEN = ("sql",)
"""What neither has seen: only the target's next version learns from it."""
MIXED = "mixed"
"""The file of held-out prompts in which all of DOMAINS take turns."""
_SOURCES = {"code": code, "chat": chat, "math": math, "json": json_records, "prose": prose, "sql": sql}

__all__ = ["DOMAINS", "MIXED", "UNSEEN", "Example", "held_out", "mixed", "train_examples", "write_held_out"]


def train_examples(domain: str, limit: int, seed: int, may_see: Sequence[str] = DOMAINS) -> Iterator[Example]:
    """Training examples of one domain; the same arguments and the same CPython give the same stream.

    Args:
        domain: one of `may_see`.
        limit: most examples to yield, >= 0.
        seed: a new seed gives new problems from templates, and new order, cuts and wordings for the rest.
        may_see: what the one who learns may be trained on; more than DOMAINS only for the next version.

    Yields:
        Examples disjoint from `held_out`. math, json and sql never run dry; the others stop when exhausted.

    Raises:
        ValueError: if the domain is unknown or not to be seen, or the limit negative.
    """
    if limit < 0:
        raise ValueError(f"need limit >= 0, got {limit=}")
    source = _source(domain)
    if domain not in may_see:
        raise ValueError(f"{domain!r} is held out of training: only the target's next version may see it")
    return islice(source.train(seed), limit)


def held_out(domain: str, n: int = 128) -> list[Example]:
    """The first `n` test examples of one domain, distinct, in a fixed order.

    Raises:
        ValueError: if the domain is unknown or has fewer than `n` test examples.
    """
    examples = list(islice(_source(domain).held_out(), n))
    if len(examples) < n:
        raise ValueError(f"{domain} has {len(examples)} held-out examples, {n} asked: ask for fewer")
    return examples


def mixed() -> list[Example]:
    """`held_out` of all DOMAINS in turn, each example once and under its own id and domain."""
    return [example for turn in zip(*map(held_out, DOMAINS), strict=True) for example in turn]


def write_held_out(folder: Path | str) -> list[Path]:
    """Write `<name>.jsonl`, one example a line, for DOMAINS, UNSEEN and MIXED; returns the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {domain: held_out(domain) for domain in (*DOMAINS, *UNSEEN)} | {MIXED: mixed()}
    paths = [folder / f"{name}.jsonl" for name in found]
    for path, examples in zip(paths, found.values(), strict=True):
        path.write_text("".join(f"{e.to_json()}\n" for e in examples), encoding="utf-8")
    return paths


def _source(domain: str):
    if domain not in _SOURCES:
        raise ValueError(f"unknown domain {domain!r}: use one of {', '.join(_SOURCES)}")
    return _SOURCES[domain]
