"""Domains made from templates: an endless stream of examples, split by a hash of the prompt."""

import random
from collections.abc import Callable, Iterator

from specbook.pocket.corpus.example import Example, in_held_out_bucket

HELD_OUT_ONE_IN = 50
Maker = Callable[[random.Random], Example]
"""Makes one example from chance."""


def train(domain: str, make: Maker, seed: int) -> Iterator[Example]:
    """An endless stream of examples outside the held-out bucket."""
    stream = _stream(make, f"{domain}:{seed}")
    return (e for e in stream if not in_held_out_bucket(e.prompt, HELD_OUT_ONE_IN))


def held_out(domain: str, make: Maker) -> Iterator[Example]:
    """An endless stream of distinct examples from the held-out bucket."""
    seen: set[str] = set()
    for example in _stream(make, f"{domain}:held-out"):
        if in_held_out_bucket(example.prompt, HELD_OUT_ONE_IN) and example.prompt not in seen:
            seen.add(example.prompt)
            yield example


def _stream(make: Maker, seed: str) -> Iterator[Example]:
    rng = random.Random(seed)
    while True:
        yield make(rng)
