"""Word problems with every step written out: easy arithmetic, more problems than a model can memorise."""

import random
import re
from collections.abc import Iterator

from specbook.pocket.corpus import generated
from specbook.pocket.corpus.example import Example, make_example
from specbook.pocket.corpus.json_orders import NAMES
from specbook.pocket.corpus.stories import STORIES

_ITEMS = [
    "apples", "pears", "stickers", "marbles", "pencils", "cards", "shells", "coins", "books", "stamps",
    "cookies", "buttons", "eggs", "ribbons", "beads", "candles", "plums", "lemons", "tickets", "badges",
    "balloons", "crayons", "keys", "magnets",
]  # fmt: skip
_TASKS = ("", "", "Solve the problem step by step.\n", "Work this out and show each step.\n")


def train(seed: int) -> Iterator[Example]:
    """An endless stream of problems outside the held-out bucket."""
    return generated.train("math", _example, seed)


def held_out() -> Iterator[Example]:
    """An endless stream of distinct problems from the held-out bucket."""
    return generated.held_out("math", _example)


def _example(rng: random.Random) -> Example:
    first, second = rng.sample(NAMES, 2)
    text, *steps = rng.choice(STORIES)(rng, first, second, rng.choice(_ITEMS))
    answer = int(re.findall(r"= (\d+)", steps[-1])[-1])
    solution = " ".join(steps) + f"\n#### {answer}"
    return make_example("math", rng.choice(_TASKS) + text, solution, kind="math_exact", answer=answer)
