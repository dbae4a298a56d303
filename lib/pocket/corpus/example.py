"""One training or test example, and the stable hash that decides which of the two it is.

Domains made from templates are endless streams of examples, split by a hash of the pattern they follow.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Example:
    """A user turn, the assistant's reference answer, and what a checker needs to judge another answer."""

    id: str
    """Domain and 12 hex digits of the SHA-256 of prompt and answer."""
    domain: str
    """One of `DOMAINS` or `UNSEEN`."""
    prompt: str
    """The user's message, before the chat template."""
    answer: str
    """The reference answer, without an end-of-turn token."""
    check: dict[str, Any]
    """`kind` names the checker in `specbook.bench.greedy`; the other keys are its arguments."""

    def to_json(self) -> str:
        """The example as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def make_example(domain: str, prompt: str, answer: str, /, **check: Any) -> Example:
    """Build an example whose id follows from its text, so that equal text always has an equal id."""
    digest = hashlib.sha256(f"{prompt}\0{answer}".encode()).hexdigest()
    return Example(f"{domain}-{digest[:12]}", domain, prompt, answer, check)


def stable_hash(text: str) -> int:
    """A non-negative integer that is the same in every process (unlike `hash`)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def in_held_out_bucket(key: str, one_in: int) -> bool:
    """True for about one key in `one_in`; such a key never enters training."""
    return stable_hash(key) % one_in == 0


HELD_OUT_ONE_IN = 12
Maker = Callable[[random.Random], tuple[str, Example]]
"""Makes one example from chance, and names the pattern it follows: whole patterns are held out."""


def streams(
    domain: str, make: Maker
) -> tuple[Callable[[int], Iterator[Example]], Callable[[], Iterator[Example]]]:
    """A domain's `train(seed)` and `held_out()`."""
    return partial(_train, domain, make), partial(_held_out, domain, make)


def _train(domain: str, make: Maker, seed: int) -> Iterator[Example]:
    """An endless stream of examples whose patterns are outside the held-out bucket."""
    stream = _stream(make, f"{domain}:{seed}")
    return (e for pattern, e in stream if not in_held_out_bucket(pattern, HELD_OUT_ONE_IN))


def _held_out(domain: str, make: Maker) -> Iterator[Example]:
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
