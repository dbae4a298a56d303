"""Names, things and the many ways to write a number, a date, a price or a phone number."""

import random

NAMES = [
    "Ada", "Ben", "Carla", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam",
    "Mona", "Nils", "Olga", "Pedro", "Quinn", "Rosa", "Sven", "Tara", "Uma", "Victor", "Wanda", "Xavier",
    "Yara", "Zane", "Amir", "Bea", "Chen", "Dora", "Emil", "Freya",
]  # fmt: skip
SURNAMES = [
    "Abbott", "Berg", "Castro", "Dahl", "Evans", "Fischer", "Grant", "Haas", "Ito", "Jansen", "Kaya",
    "Lopez", "Meyer", "Novak", "Okafor", "Patel", "Rossi", "Silva", "Tanaka", "Ueda", "Vance", "Weber",
    "Young", "Zhang", "Moreau", "Nash", "Olsen", "Park",
]  # fmt: skip
CITIES = [
    "Berlin", "Lisbon", "Oslo", "Madrid", "Vienna", "Dublin", "Prague", "Athens", "Toronto", "Boston",
    "Denver", "Austin", "Kyoto", "Osaka", "Seoul", "Lima", "Quito", "Cairo", "Nairobi", "Accra", "Geneva",
    "Turin", "Porto", "Lyon", "Ghent", "Malmo",
]  # fmt: skip
COLOURS = ["red", "blue", "green", "black", "white", "grey", "brown", "yellow"]
THINGS = [
    "desk lamps", "notebooks", "office chairs", "water bottles", "backpacks", "coffee mugs", "keyboards",
    "monitors", "headphones", "phone cases", "picture frames", "umbrellas", "bath towels", "pillows",
    "garden hoses", "tea pots", "wall clocks", "bicycle bells", "paint brushes", "storage boxes",
    "rain jackets", "running shoes", "wool scarves", "cutting boards", "soup bowls", "plant pots",
]  # fmt: skip
_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
]  # fmt: skip
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")


def person(rng: random.Random) -> str:
    """First name and surname."""
    return f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}"


def number(rng: random.Random, value: int) -> str:
    """A number from 2 to 12 in digits or in words."""
    if value == 12:
        return rng.choice(("12", "a dozen"))
    return rng.choice((str(value), _NUMBERS[value - 2])) if value < 10 else str(value)


def price(rng: random.Random, dollars: int) -> str:
    """What one piece costs."""
    return rng.choice((f"at {dollars} dollars each", f"for ${dollars} each", f"at ${dollars} apiece"))


def date(rng: random.Random) -> tuple[str, str]:
    """A day as people write it, and as `MM-DD`."""
    day, month = rng.randint(1, 28), rng.randint(1, 12)
    name = _MONTHS[month - 1]
    written = rng.choice((f"{day} {name}", f"{name} {day}", f"the {day}{_ordinal(day)} of {name}"))
    return written, f"{month:02d}-{day:02d}"


def phone(rng: random.Random) -> tuple[str, str]:
    """A number as people write it, and as `555-1234`."""
    digits = f"{rng.randint(0, 9999):04d}"
    return rng.choice((f"555-{digits}", f"555 {digits}", f"(555) {digits}", f"555{digits}")), f"555-{digits}"


def _ordinal(day: int) -> str:
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
