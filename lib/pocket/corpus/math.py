"""Word problems of two to five steps, all written out: easy arithmetic, too many problems to memorise.

A story is an opening, a chain of events, a question, and a worked sentence for each. Sums and differences
stay within 0 to 99 and factors within 10: a small model can learn that arithmetic.
"""

import random
from collections.abc import Callable

from pocket.corpus.example import Example, make_example, streams
from pocket.corpus.words import NAMES

Opening = Callable[[random.Random, str, str], tuple[str, str, int]]
"""(random source, person, item) -> (text, worked step or empty, how many the person has)."""
Event = Callable[[random.Random, str, str, str, int], tuple[str, str, int] | None]
"""(random source, person, friend, item, number) -> (text, worked step, new number), if it can happen."""
MOST = 99
_CONTAINERS = ("boxes", "bags", "baskets", "crates", "jars", "trays")
_ITEMS = [
    "apples", "pears", "stickers", "marbles", "pencils", "cards", "shells", "coins", "books", "stamps",
    "cookies", "buttons", "eggs", "ribbons", "beads", "candles", "plums", "lemons", "tickets", "badges",
    "balloons", "crayons", "keys", "magnets",
]  # fmt: skip
_TASKS = ("", "", "Solve the problem step by step.\n", "Work this out and show each step.\n")
_LENGTHS = (2, 2, 3, 3, 4)
"""Events of a story."""


def _has(r, who, item):
    a = r.randint(5, 80)
    return r.choice((f"{who} has {a} {item}.", f"{who} starts the day with {a} {item}.")), "", a


def _packs(r, who, item):
    n, m, box = r.randint(2, 9), r.randint(2, 9), r.choice(_CONTAINERS)
    text = f"{who} fills {n} {box} with {m} {item} each."
    return text, f"The {box} hold {n} * {m} = {n * m} {item}.", n * m


def _tens(r, who, item):
    n = r.randint(2, 9)
    return f"{who} opens {n} packs of 10 {item}.", f"The packs hold {n} * 10 = {n * 10} {item}.", n * 10


def _two_days(r, who, item):
    a, b = r.randint(2, 45), r.randint(2, 45)
    text = f"{who} collects {a} {item} on Monday and {b} on Tuesday."
    return text, f"In two days {who} collects {a} + {b} = {a + b} {item}.", a + b


def _weekly(r, who, item):
    a, weeks = r.randint(2, 9), r.randint(2, 9)
    text = f"{who} saves {a} {item} a week for {weeks} weeks."
    return text, f"In {weeks} weeks that makes {weeks} * {a} = {weeks * a} {item}.", weeks * a


def _among_children(r, who, item):
    n, each = r.randint(2, 9), r.randint(2, 9)
    text = f"{n * each} {item} are shared equally among {n} children, one of them {who}."
    return text, f"{who} gets {n * each} / {n} = {each} {item}.", each


def _gives(r, who, friend, item, have):
    if have < 4:
        return None
    b = r.randint(1, min(have - 1, 40))
    text = r.choice((f"{who} gives {b} to {friend}.", f"{friend} takes {b} of them."))
    return text, f"After {friend} has {b}, {who} keeps {have} - {b} = {have - b}.", have - b


def _loses(r, who, friend, item, have):
    if have < 4:
        return None
    b = r.randint(1, min(have - 1, 25))
    text = r.choice((f"Then {b} {item} get lost.", f"{who} loses {b}.", f"On the way {b} break."))
    return text, f"Without the lost ones there are {have} - {b} = {have - b}.", have - b


def _buys(r, who, friend, item, have):
    if have > MOST - 2:
        return None
    b = r.randint(2, min(MOST - have, 50))
    text = r.choice((f"{who} buys {b} more.", f"{who} finds {b} {item}.", f"{friend} brings {b} more."))
    return text, f"With the new ones there are {have} + {b} = {have + b}.", have + b


def _buys_packs(r, who, friend, item, have):
    n, m = r.randint(2, 5), r.randint(2, 9)
    if have + n * m > MOST:
        return None
    text = f"{who} buys {n} bags of {m} {item}."
    return (
        text,
        f"The bags hold {n} * {m} = {n * m}, which makes {have} + {n * m} = {have + n * m}.",
        have + n * m,
    )


def _doubles(r, who, friend, item, have):
    if not 2 <= have <= MOST // 2:
        return None
    text = f"A week later {who} has twice as many."
    return text, f"Twice as many are 2 * {have} = {2 * have}.", 2 * have


def _halves(r, who, friend, item, have):
    if have % 2 or have < 4:
        return None
    text = f"{who} gives half of them to {friend}."
    return text, f"Half of them are {have} / 2 = {have // 2}.", have // 2


def _shares(r, who, friend, item, have):
    parts = [k for k in range(3, 10) if have % k == 0 and have // k <= 10]
    if have < 6 or not parts:
        return None
    k = r.choice(parts)
    text = f"{who} shares them with friends, so that {k} people have equally many."
    return text, f"Each of the {k} has {have} / {k} = {have // k}.", have // k


OPENINGS: dict[str, Opening] = {
    "has": _has, "packs": _packs, "tens": _tens, "days": _two_days, "weekly": _weekly,
    "child": _among_children,
}  # fmt: skip
EVENTS: dict[str, Event] = {
    "gives": _gives, "loses": _loses, "buys": _buys, "bags": _buys_packs, "doubles": _doubles,
    "halves": _halves, "shares": _shares,
}  # fmt: skip


def _example(rng: random.Random) -> tuple[str, Example]:
    """A story whose numbers allow its events, and its pattern, such as `packs>gives>doubles`."""
    who, friend = rng.sample(NAMES, 2)
    item, events = rng.choice(_ITEMS), rng.choice(_LENGTHS)
    opening = rng.choice(list(OPENINGS))
    text, step, have = OPENINGS[opening](rng, who, item)
    names, told, steps = [opening], [text], [step] * bool(step)
    while len(names) <= events:
        name = rng.choice([n for n in EVENTS if n != names[-1]])
        if happened := EVENTS[name](rng, who, friend, item, have):
            text, step, have = happened
            names, told, steps = [*names, name], [*told, text], [*steps, step]
    question = rng.choice((f"How many {item} does {who} have now?", f"How many {item} are left with {who}?"))
    prompt, solution = rng.choice(_TASKS) + " ".join([*told, question]), " ".join(steps) + f"\n#### {have}"
    return ">".join(names), make_example("math", prompt, solution, kind="math_exact", answer=have)


train, held_out = streams("math", _example)
"""The sequence of events of a held-out problem never occurs in training."""
