"""Extract a record as JSON: a rambling message in, one pretty-printed object out.

Fields are nested and optional; numbers, dates and phone numbers are brought to one form; sums are added up.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from pocket.corpus.example import Example, make_example, streams
from pocket.corpus.words import CITIES, COLOURS, THINGS, date, number, person, phone, price
from specbook.suggestions import listed

Part = tuple[str, str]
"""What a sentence is about, numbered by its wording, and the sentence."""
Kind = Callable[[random.Random], tuple[dict[str, Any], list[Part]]]
"""Makes a record and the sentences that state it."""

_TASKS = (
    "Extract the {} as JSON.", "Turn this message into a JSON {}.", "Return the {} below as JSON.",
    "Read the message and give me the {} as a JSON object.",
)  # fmt: skip
_NOISE = (
    "Sorry for writing so late.", "The weather here is awful this week.", "Hope you are well!",
    "I tried to call 2 times but nobody answered.", "My colleague said you are quick.",
    "We met at the fair last May.", "Please excuse my typing, I am on the train.",
    "Your shop was great last time.", "I have 3 more questions but they can wait.", "Sent from my phone.",
)  # fmt: skip
_MOST_DOLLARS = 99


def _example(rng: random.Random) -> tuple[str, Example]:
    kind = rng.choice(list(KINDS))
    record, parts = KINDS[kind](rng)
    rng.shuffle(parts)
    pattern = f"{kind}: {' '.join(name for name, _ in parts)}"
    said = [sentence for _, sentence in parts]
    for noise in rng.sample(_NOISE, rng.choice((0, 1, 1, 2))):
        said.insert(rng.randint(0, len(said)), noise)
    prompt = f"{rng.choice(_TASKS).format(kind)}\n\n{' '.join(said)}"
    return pattern, make_example(
        "json", prompt, json.dumps(record, indent=1), kind="json_exact", object=record
    )


def _say(rng: random.Random, about: str, *wordings: str) -> Part:
    i = rng.randrange(len(wordings))
    return f"{about}{i}", wordings[i]


def _order(rng: random.Random) -> tuple[dict[str, Any], list[Part]]:
    name, city, items = person(rng), rng.choice(CITIES), _items(rng)
    wanted = listed([f"{number(rng, i['quantity'])} {i['name']} {price(rng, i['price'])}" for i in items])
    record: dict[str, Any] = {"customer": {"name": name, "city": city}, "items": items}
    record["total"] = sum(item["subtotal"] for item in items)
    parts = [
        _say(rng, "who", f"This is {name} from {city}.", f"My name is {name} and I live in {city}.",
             f"Ship it to {city}, to {name}.", f"The customer is {name} in {city}."),
        _say(rng, "what", f"I would like to order {wanted}.", f"Please send {wanted}.",
             f"We need {wanted}.", f"Can I get {wanted}?"),
    ]  # fmt: skip
    _maybe_when(rng, record, parts)
    _maybe_phone(rng, record["customer"], parts)
    _maybe_urgent(rng, record, parts)
    return record, parts


def _items(rng: random.Random) -> list[dict[str, Any]]:
    """One or two lines whose subtotals add up to at most `_MOST_DOLLARS`."""
    items: list[dict[str, Any]] = []
    left = _MOST_DOLLARS
    for thing in rng.sample(THINGS, rng.choice((1, 2, 2))):
        quantity, each = rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 12)), rng.randint(2, 8)
        if quantity * each <= left:
            name = f"{rng.choice(COLOURS)} {thing}" if rng.random() < 0.4 else thing
            items.append({"name": name, "quantity": quantity, "price": each, "subtotal": quantity * each})
            left -= quantity * each
    return items


def _booking(rng: random.Random) -> tuple[dict[str, Any], list[Part]]:
    name, city, nights = person(rng), rng.choice(CITIES), rng.randint(2, 9)
    adults, children = rng.randint(2, 9), rng.choice((0, 2, 3, 4, 5))
    stay, grown = number(rng, nights), number(rng, adults)
    written, day = date(rng)
    guests = {"adults": adults} | ({"children": children} if children else {})
    record: dict[str, Any] = {
        "guest": name, "city": city, "stay": {"arrival": day, "nights": nights},
        "guests": guests | {"total": adults + children},
    }  # fmt: skip
    family = f"{grown} adults" + (f" and {number(rng, children)} children" if children else "")
    parts = [
        _say(rng, "who", f"The room is for {name}.", f"I am {name}.", f"Please book it under {name}."),
        _say(rng, "stay", f"We come to {city} on {written} for {stay} nights.",
             f"We need {stay} nights in {city} from {written} on.",
             f"Is there a room in {city} for {stay} nights? We arrive on {written}."),
        _say(rng, "size", f"We are {family}.", f"There will be {family}.", f"It is a party of {family}."),
    ]  # fmt: skip
    _maybe_phone(rng, record, parts)
    return record, parts


def _expense(rng: random.Random) -> tuple[dict[str, Any], list[Part]]:
    name, start, end = person(rng), *rng.sample(CITIES, 2)
    costs: dict[str, int] = {}
    for what in rng.sample(("train", "hotel", "taxi", "meals", "parking"), 2):
        costs[what] = rng.randint(3, 49)
    paid = listed([f"{rng.choice((f'${n}', f'{n} dollars'))} for the {what}" for what, n in costs.items()])
    record: dict[str, Any] = {
        "employee": name, "trip": {"from": start, "to": end}, "costs": costs, "total": sum(costs.values())
    }  # fmt: skip
    parts = [
        _say(rng, "who", f"{name} here.", f"These are the costs of {name}.", f"I file this for {name}."),
        _say(rng, "trip", f"The trip went from {start} to {end}.", f"I travelled to {end} from {start}.",
             f"It was a visit to {end}, starting in {start}."),
        _say(rng, "paid", f"I paid {paid}.", f"The bills are {paid}.", f"It cost {paid}."),
    ]  # fmt: skip
    _maybe_when(rng, record, parts)
    return record, parts


def _maybe_when(rng: random.Random, record: dict[str, Any], parts: list[Part]) -> None:
    if rng.random() < 0.5:
        written, record["date"] = date(rng)
        parts.append(_say(rng, "date", f"The date is {written}.", f"Put down {written} as the date."))


def _maybe_phone(rng: random.Random, record: dict[str, Any], parts: list[Part]) -> None:
    if rng.random() < 0.4:
        written, record["phone"] = phone(rng)
        parts.append(_say(rng, "phone", f"You can call me on {written}.", f"Phone: {written}."))


def _maybe_urgent(rng: random.Random, record: dict[str, Any], parts: list[Part]) -> None:
    record["priority"] = rng.choice(("high", "low", "normal"))
    if record["priority"] == "high":
        parts.append(_say(rng, "high", "This is urgent.", "Please hurry.", "We cannot wait long."))
    if record["priority"] == "low":
        parts.append(_say(rng, "low", "There is no rush.", "Take your time.", "It can wait."))


KINDS: dict[str, Kind] = {"order": _order, "booking": _booking, "expense report": _expense}
train, held_out = streams("json", _example)
"""The wordings of a held-out message are put together in ways that training never shows."""
