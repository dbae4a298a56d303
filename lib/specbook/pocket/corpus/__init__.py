"""Five domains of prompts and answers, from CPython's own library and documentation and from templates."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from specbook.pocket.corpus import chat, code, json_records, math, prose
from specbook.pocket.corpus.example import Example

DOMAINS = ("code", "chat", "math", "json", "prose")
_SOURCES = {"code": code, "chat": chat, "math": math, "json": json_records, "prose": prose}

__all__ = ["DOMAINS", "Example", "held_out", "train_examples", "write_held_out"]


def train_examples(domain: str, limit: int, seed: int) -> Iterator[Example]:
    """Training examples of one domain; the same arguments and the same CPython give the same stream.

    Args:
        domain: one of `DOMAINS`.
        limit: most examples to yield, >= 0.
        seed: a new seed gives new math and json problems, and new order, cuts and wordings for the rest.

    Yields:
        Examples disjoint from `held_out`. math and json never run dry; the others stop when exhausted.

    Raises:
        ValueError: if the domain is unknown or the limit negative.
    """
    if limit < 0:
        raise ValueError(f"need limit >= 0, got {limit=}")
    return islice(_source(domain).train(seed), limit)


def held_out(domain: str, n: int = 128) -> list[Example]:
    """The first `n` test examples of one domain, distinct, in a fixed order.

    Raises:
        ValueError: if the domain is unknown or has fewer than `n` test examples.
    """
    examples = list(islice(_source(domain).held_out(), n))
    if len(examples) < n:
        raise ValueError(f"{domain} has {len(examples)} held-out examples, {n} asked: ask for fewer")
    return examples


def write_held_out(folder: Path | str) -> list[Path]:
    """Write `<domain>.jsonl`, one example a line, for every domain; returns the paths in `DOMAINS` order."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{domain}.jsonl" for domain in DOMAINS]
    for domain, path in zip(DOMAINS, paths, strict=True):
        path.write_text("".join(f"{e.to_json()}\n" for e in held_out(domain)), encoding="utf-8")
    return paths


def _source(domain: str):
    if domain not in _SOURCES:
        raise ValueError(f"unknown domain {domain!r}: use one of {', '.join(DOMAINS)}")
    return _SOURCES[domain]
