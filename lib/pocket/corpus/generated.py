"""Domains made from templates: an endless stream of examples, split by a hash of what they are made from."""

import random
from collections.abc import Callable, Iterator

from pocket.corpus.example import Example, in_held_out_bucket

HELD_OUT_ONE_IN = 12
Maker = Callable[[random.Random], tuple[str, Example]]
"""Makes one example from chance, and names the pattern it follows: whole patterns are held out."""


def train(domain: str, make: Maker, seed: int) -> Iterator[Example]:
    """An endless stream of examples whose patterns are outside the held-out bucket."""
    stream = _stream(make, f"{domain}:{seed}")
    return (e for pattern, e in stream if not in_held_out_bucket(pattern, HELD_OUT_ONE_IN))


def held_out(domain: str, make: Maker) -> Iterator[Example]:
    """An endless stream of distinct examples whose patterns are in the held-out bucket."""
    seen: set[str] = set()
    for pattern, example in _stream(make, f"{domain}:held-out"):
        if in_held_out_bucket(pattern, HELD_OUT_ONE_IN) and example.prompt not in seen:
            seen.add(example.prompt)
            yield example


def _stream(make: Maker, seed: str) -> Iterator[tuple[str, Example]]:
    rng = random.Random(seed)
    while True:
        yield make(rng)
