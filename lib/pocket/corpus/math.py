"""Word problems of two to five steps, all written out: easy arithmetic, too many problems to memorise."""

import random
from collections.abc import Iterator

from pocket.corpus import generated
from pocket.corpus.chains import story
from pocket.corpus.example import Example, make_example
from pocket.corpus.words import NAMES

_ITEMS = [
    "apples", "pears", "stickers", "marbles", "pencils", "cards", "shells", "coins", "books", "stamps",
    "cookies", "buttons", "eggs", "ribbons", "beads", "candles", "plums", "lemons", "tickets", "badges",
    "balloons", "crayons", "keys", "magnets",
]  # fmt: skip
_TASKS = ("", "", "Solve the problem step by step.\n", "Work this out and show each step.\n")
_EVENTS = (2, 2, 3, 3, 4)


def train(seed: int) -> Iterator[Example]:
    """An endless stream of problems; no story goes as a held-out one does."""
    return generated.train("math", _example, seed)


def held_out() -> Iterator[Example]:
    """An endless stream of distinct problems whose sequence of events never occurs in training."""
    return generated.held_out("math", _example)


def _example(rng: random.Random) -> tuple[str, Example]:
    first, second = rng.sample(NAMES, 2)
    told = story(rng, first, second, rng.choice(_ITEMS), rng.choice(_EVENTS))
    solution = " ".join(told.steps) + f"\n#### {told.answer}"
    return told.pattern, make_example(
        "math", rng.choice(_TASKS) + told.text, solution, kind="math_exact", answer=told.answer
    )
