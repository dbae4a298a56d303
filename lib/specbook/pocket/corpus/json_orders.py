"""Extract an order as JSON: a customer's message in, one pretty-printed object out."""

import json
import random
from collections.abc import Iterator
from typing import Any

from specbook.pocket.corpus import generated
from specbook.pocket.corpus.example import Example, make_example

NAMES = [
    "Ada", "Ben", "Carla", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam",
    "Mona", "Nils", "Olga", "Pedro", "Quinn", "Rosa", "Sven", "Tara", "Uma", "Victor", "Wanda", "Xavier",
    "Yara", "Zane", "Amir", "Bea", "Chen", "Dora", "Emil", "Freya",
]  # fmt: skip
_SURNAMES = [
    "Abbott", "Berg", "Castro", "Dahl", "Evans", "Fischer", "Grant", "Haas", "Ito", "Jansen", "Kaya",
    "Lopez", "Meyer", "Novak", "Okafor", "Patel", "Rossi", "Silva", "Tanaka", "Ueda", "Vance", "Weber",
    "Young", "Zhang", "Moreau", "Nash", "Olsen", "Park",
]  # fmt: skip
_CITIES = [
    "Berlin", "Lisbon", "Oslo", "Madrid", "Vienna", "Dublin", "Prague", "Athens", "Toronto", "Boston",
    "Denver", "Austin", "Kyoto", "Osaka", "Seoul", "Lima", "Quito", "Cairo", "Nairobi", "Accra", "Geneva",
    "Turin", "Porto", "Lyon", "Ghent", "Malmo",
]  # fmt: skip
_COLOURS = [
    "red", "blue", "green", "black", "white", "grey", "brown", "yellow",
]  # fmt: skip
_THINGS = [
    "desk lamps", "notebooks", "office chairs", "water bottles", "backpacks", "coffee mugs", "keyboards",
    "monitors", "headphones", "phone cases", "picture frames", "umbrellas", "bath towels", "pillows",
    "garden hoses", "tea pots", "wall clocks", "bicycle bells", "paint brushes", "storage boxes",
    "rain jackets", "running shoes", "wool scarves", "cutting boards", "soup bowls", "plant pots",
]  # fmt: skip
_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
]  # fmt: skip
_TASKS = (
    "Extract the order as JSON.",
    "Turn this message into a JSON order.",
    "Read the message and return the order as JSON.",
    "Give me the order below as a JSON object.",
)
# Each message names the customer, the city and the items; {extras} holds the optional sentences.
_MESSAGES = (
    "Hi, this is {customer} from {city}. I would like to order {items}.{extras}",
    "Hello, I need {items} sent to {city}. My name is {customer}.{extras}",
    "Please ship {items} to {city} for {customer}.{extras}",
    "{customer} here. Could you deliver {items} to my place in {city}?{extras}",
    "Good morning! We want to buy {items}. The customer is {customer} in {city}.{extras}",
    "New order for {customer}: {items}. Ship it to {city}.{extras}",
    "I live in {city} and I want {items}. Put it under {customer}.{extras}",
    "Can I get {items}? It goes to {city}.{extras} Thanks, {customer}",
    "Order request from {city}: {items}.{extras} Regards, {customer}",
    "My team in {city} has run out of stock, so please send {items}.{extras} Ask for {customer} at the door.",
)
_DATES = (" It should arrive by {}.", " We need it on {}.", " The delivery date is {}.")
_PHONES = (" You can call me on {}.", " My phone number is {}.", " Phone: {}.")
_PRIORITY = {
    "high": (" This is urgent.", " Please hurry, it is urgent.", " High priority, please."),
    "low": (" There is no rush.", " Take your time.", " Low priority is fine."),
}


def train(seed: int) -> Iterator[Example]:
    """An endless stream of orders outside the held-out bucket."""
    return generated.train("json", _example, seed)


def held_out() -> Iterator[Example]:
    """An endless stream of distinct orders from the held-out bucket."""
    return generated.held_out("json", _example)


def _example(rng: random.Random) -> Example:
    order, extras = _order(rng)
    items = _listing([f"{i['quantity']} {i['name']}" for i in order["items"]])
    message = rng.choice(_MESSAGES).format(
        customer=order["customer"], city=order["city"], items=items, extras=extras
    )
    prompt = f"{rng.choice(_TASKS)}\n\n{message}"
    return make_example("json", prompt, json.dumps(order, indent=1), kind="json_exact", object=order)


def _order(rng: random.Random) -> tuple[dict[str, Any], str]:
    """An order with its keys in their fixed order, and the sentences that state its optional fields."""
    order: dict[str, Any] = {
        "customer": f"{rng.choice(NAMES)} {rng.choice(_SURNAMES)}",
        "city": rng.choice(_CITIES),
        "items": _items(rng),
    }
    extras = ""
    if rng.random() < 0.4:
        order["date"] = f"{rng.randint(1, 28)} {rng.choice(_MONTHS)}"
        extras += rng.choice(_DATES).format(order["date"])
    if rng.random() < 0.3:
        order["phone"] = f"555-{rng.randint(0, 9999):04d}"
        extras += rng.choice(_PHONES).format(order["phone"])
    order["priority"] = rng.choice(("high", "low", "normal"))
    return order, extras + rng.choice(_PRIORITY.get(order["priority"], ("",)))


def _items(rng: random.Random) -> list[dict[str, Any]]:
    things = rng.sample(_THINGS, rng.choice((1, 2, 2, 3)))
    names = [f"{rng.choice(_COLOURS)} {thing}" if rng.random() < 0.5 else thing for thing in things]
    return [{"name": name, "quantity": rng.randint(2, 40)} for name in names]


def _listing(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
