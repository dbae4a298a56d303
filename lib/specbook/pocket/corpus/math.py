"""Word problems with every step written out: easy arithmetic, more problems than a model can memorise."""

import random
import re
from collections.abc import Iterator

from specbook.pocket.corpus.example import Example, in_held_out_bucket, make_example
from specbook.pocket.corpus.json_orders import NAMES
from specbook.pocket.corpus.stories import STORIES

HELD_OUT_ONE_IN = 50
_ITEMS = [
    "apples", "pears", "stickers", "marbles", "pencils", "cards", "shells", "coins", "books", "stamps",
    "cookies", "buttons", "eggs", "ribbons", "beads", "candles", "plums", "lemons", "tickets", "badges",
    "balloons", "crayons", "keys", "magnets",
]  # fmt: skip
_TASKS = ("", "", "Solve the problem step by step.\n", "Work this out and show each step.\n")


def train(seed: int) -> Iterator[Example]:
    """An endless stream of problems outside the held-out bucket."""
    return (e for e in _stream(f"math:{seed}") if not in_held_out_bucket(e.prompt, HELD_OUT_ONE_IN))


def held_out() -> Iterator[Example]:
    """An endless stream of distinct problems from the held-out bucket."""
    seen: set[str] = set()
    for example in _stream("math:held-out"):
        if in_held_out_bucket(example.prompt, HELD_OUT_ONE_IN) and example.prompt not in seen:
            seen.add(example.prompt)
            yield example


def _stream(seed: str) -> Iterator[Example]:
    rng = random.Random(seed)
    while True:
        yield _example(rng)


def _example(rng: random.Random) -> Example:
    first, second = rng.sample(NAMES, 2)
    text, *steps = rng.choice(STORIES)(rng, first, second, rng.choice(_ITEMS))
    answer = int(re.findall(r"= (\d+)", steps[-1])[-1])
    solution = " ".join(steps) + f"\n#### {answer}"
    return make_example("math", rng.choice(_TASKS) + text, solution, kind="math_exact", answer=answer)
