"""The stories of the math domain: a question, then one sentence per step of its solution.

Sums and differences stay within 0 to 99 and factors within 10: a small model can learn that arithmetic.
"""

import random
from collections.abc import Callable

Story = Callable[[random.Random, str, str, str], tuple[str, ...]]
"""(random source, person, friend, item) -> (question, step, ...); the last step ends in `= answer`."""
_CONTAINERS = [
    "boxes", "bags", "baskets", "crates", "jars", "trays",
]  # fmt: skip
_PLACES = [
    "market", "fair", "library", "museum", "beach", "school", "station", "park",
]  # fmt: skip


def _gains(r, who, friend, item):
    a, b = r.randint(2, 60), r.randint(2, 38)
    how = r.choice((f"buys {b} more", f"finds {b} more", f"gets {b} more from {friend}"))
    text = f"{who} has {a} {item}. {who} {how}. How many {item} does {who} have now?"
    return (
        text,
        f"{who} now has {a} + {b} = {a + b} {item}.",
    )


def _gives(r, who, friend, item):
    a, b, c = r.randint(40, 90), r.randint(2, 19), r.randint(2, 19)
    text = f"{who} has {a} {item}. {who} gives {b} to {friend} and loses {c}. How many {item} are left?"
    return (
        text,
        f"After the gift {who} has {a} - {b} = {a - b} {item}.",
        f"After the loss {a - b} - {c} = {a - b - c} {item} are left.",
    )


def _boxes(r, who, friend, item):
    n, m, box = r.randint(2, 9), r.randint(2, 9), r.choice(_CONTAINERS)
    extra = r.randint(1, 18)
    text = (
        f"{who} fills {n} {box} with {m} {item} each and has {extra} {item} left over. "
        f"How many {item} are there?"
    )
    return (
        text,
        f"The {box} hold {n} * {m} = {n * m} {item}.",
        f"With the rest there are {n * m} + {extra} = {n * m + extra} {item}.",
    )


def _shopping(r, who, friend, item):
    n, price = r.randint(2, 9), r.randint(2, 9)
    paid = n * price + r.randint(1, 99 - n * price)
    text = (
        f"{who} buys {n} {item} for {price} dollars each and pays with {paid} dollars. "
        "How much change is there?"
    )
    return (
        text,
        f"The {item} cost {n} * {price} = {n * price} dollars.",
        f"The change is {paid} - {n * price} = {paid - n * price} dollars.",
    )


def _sharing(r, who, friend, item):
    k, each, extra = r.randint(2, 9), r.randint(2, 9), r.randint(1, 15)
    text = (
        f"{who} picks {k * each} {item} and shares them among {k} friends. {friend} is one of them and "
        f"already had {extra}. How many {item} does {friend} have now?"
    )
    return (
        text,
        f"Each friend gets {k * each} / {k} = {each} {item}.",
        f"{friend} now has {each} + {extra} = {each + extra} {item}.",
    )


def _trip(r, who, friend, item):
    a, b, c = r.randint(5, 40), r.randint(5, 30), r.randint(2, 25)
    place = r.choice(_PLACES)
    text = (
        f"{who} drives {a} miles to the {place}, then {b} miles to see {friend}, then {c} miles home. "
        "How long is the trip in miles?"
    )
    return (
        text,
        f"The first two parts are {a} + {b} = {a + b} miles.",
        f"The whole trip is {a + b} + {c} = {a + b + c} miles.",
    )


def _ages(r, who, friend, item):
    a, gap, later = r.randint(5, 40), r.randint(2, 20), r.randint(2, 20)
    text = (
        f"{who} is {a} years old. {friend} is {gap} years older. How old will {friend} be in {later} years?"
    )
    return (
        text,
        f"{friend} is {a} + {gap} = {a + gap} years old now.",
        f"In {later} years {friend} will be {a + gap} + {later} = {a + gap + later}.",
    )


def _saving(r, who, friend, item):
    week, weeks = r.randint(2, 9), r.randint(2, 9)
    had = r.randint(1, 18)
    text = (
        f"{who} has {had} dollars and saves {week} dollars a week. "
        f"How many dollars does {who} have after {weeks} weeks?"
    )
    return (
        text,
        f"In {weeks} weeks {who} saves {weeks} * {week} = {weeks * week} dollars.",
        f"With the first {had} that makes {weeks * week} + {had} = {weeks * week + had} dollars.",
    )


def _compare(r, who, friend, item):
    a, b = r.randint(30, 50), r.randint(2, 28)
    text = f"{who} has {a} {item} and {friend} has {b} fewer. How many {item} do they have together?"
    return (
        text,
        f"{friend} has {a} - {b} = {a - b} {item}.",
        f"Together they have {a} + {a - b} = {2 * a - b} {item}.",
    )


def _tens(r, who, friend, item):
    packs, used = r.randint(2, 9), r.randint(2, 19)
    text = (
        f"{item.capitalize()} come in packs of 10. {who} opens {packs} packs and uses {used} {item}. "
        "How many are left?"
    )
    return (
        text,
        f"There are {packs} * 10 = {packs * 10} {item} in the packs.",
        f"After that {packs * 10} - {used} = {packs * 10 - used} are left.",
    )


def _packing(r, who, friend, item):
    size, n = r.randint(2, 9), r.randint(2, 9)
    a = r.randint(1, size * n - 1)
    box = r.choice(_CONTAINERS)
    text = (
        f"{who} has {a} {item} and {friend} has {size * n - a}. They put them all into {box} of {size}. "
        f"How many {box} do they fill?"
    )
    return (
        text,
        f"Together they have {a} + {size * n - a} = {size * n} {item}.",
        f"They fill {size * n} / {size} = {n} {box}.",
    )


def _two_jobs(r, who, friend, item):
    a, x, b, y = r.randint(2, 7), r.randint(2, 7), r.randint(2, 6), r.randint(2, 8)
    text = (
        f"{who} works {a} hours for {x} dollars an hour. {friend} works {b} hours for {y} dollars an hour. "
        "How much do they earn together?"
    )
    return (
        text,
        f"{who} earns {a} * {x} = {a * x} dollars.",
        f"{friend} earns {b} * {y} = {b * y} dollars.",
        f"Together they earn {a * x} + {b * y} = {a * x + b * y} dollars.",
    )


def _bus(r, who, friend, item):
    a, off, on = r.randint(20, 60), r.randint(2, 19), r.randint(2, 30)
    place = r.choice(_PLACES)
    text = (
        f"A bus has {a} riders. At the {place} {off} get off and {on} get on. "
        "How many riders are on the bus now?"
    )
    return (
        text,
        f"After {off} get off there are {a} - {off} = {a - off} riders.",
        f"After {on} get on there are {a - off} + {on} = {a - off + on} riders.",
    )


def _reading(r, who, friend, item):
    pages, days = r.randint(2, 9), r.randint(2, 9)
    total = pages * days + r.randint(1, 99 - pages * days)
    text = (
        f"A book has {total} pages. {who} reads {pages} pages a day for {days} days. How many pages are left?"
    )
    return (
        text,
        f"In {days} days {who} reads {days} * {pages} = {days * pages} pages.",
        f"That leaves {total} - {days * pages} = {total - days * pages} pages.",
    )


def _halves(r, who, friend, item):
    half, extra, gone = r.randint(2, 9), r.randint(10, 30), r.randint(1, 9)
    text = (
        f"{who} had {2 * half} {item} and gave half of them to {friend}. Then {who} bought {extra} more and "
        f"lost {gone}. How many {item} does {who} have?"
    )
    return (
        text,
        f"Half is {2 * half} / 2 = {half}, so {who} keeps {half} {item}.",
        f"After buying there are {half} + {extra} = {half + extra}.",
        f"After the loss there are {half + extra} - {gone} = {half + extra - gone}.",
    )


STORIES: tuple[Story, ...] = (
    _gains,
    _gives,
    _boxes,
    _shopping,
    _sharing,
    _trip,
    _ages,
    _saving,
    _compare,
    _tens,
    _packing,
    _two_jobs,
    _bus,
    _reading,
    _halves,
)
