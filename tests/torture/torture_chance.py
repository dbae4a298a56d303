"""Chance with a seed: `make test` takes a few tries of seed 0, `make torture` as many as its time allows."""

import itertools
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

SEED = int(os.environ.get("TORTURE_SEED", "0"))
SECONDS = float(os.environ.get("TORTURE_SECONDS", "0"))
"""How long each case goes on trying."""
HOSTILE = (
    None, True, False, 0, -1, 1, 3.5, 10**30, -(10**30), 1e308, float("inf"), float("-inf"), float("nan"),
    "", " ", "\0", "x" * 5000, "<script>", "../../x", "/", "~", "~nobody/x", "{}", "- [", "nan", "é",
    "\u202e", "1e9", [], {}, [[]], [None], {"a": {}}, {1: 2}, {None: None}, date(2026, 1, 1), b"\xff", {"x"},
)  # fmt: skip
"""What YAML or JSON may hold where something else is wanted."""


def tries(name: str, least: int) -> Iterator[random.Random]:
    """Chance for each try: `least` of them, and more for as long as SECONDS say."""
    deadline = time.monotonic() + SECONDS
    for number in itertools.count():
        if number >= least and time.monotonic() > deadline:
            return
        yield random.Random(f"{SEED}/{name}/{number}")


@contextmanager
def nothing_but(allowed: type[Exception], what: str) -> Iterator[None]:
    """Only `allowed` is raised; anything else is a defect, told with `what`."""
    try:
        yield
    except allowed:
        pass
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def spoilt(body: object, chance: random.Random) -> str:
    """Change one place of nested mappings and lists; returns what was done."""
    places = [*_places(body, ())]
    holder, key, where = chance.choice(places)
    how = chance.choice(["replace", "replace", "replace", "remove", "misspell"])
    if how == "replace" or not isinstance(holder, dict):
        holder[key] = chance.choice(HOSTILE)
        return f"{where} = {str(holder[key])[:60]!r}"
    value = holder.pop(key)
    if how == "misspell":
        holder[f"{key}x"] = value
    return f"{how} {where}"


def _places(body: object, path: tuple) -> Iterator[tuple[object, object, str]]:
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in items:
        where = (*path, str(key))
        yield body, key, ".".join(where)
        yield from _places(value, where)


def spoilt_bytes(data: bytes, chance: random.Random) -> bytes:
    """The same with a bit flipped, a piece cut out, put in or doubled, or nothing left of it."""
    at = chance.randrange(len(data) + 1)
    piece = chance.randbytes(chance.choice([1, 1, 4, 64]))
    match chance.randrange(6):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + piece + data[at:]
        case 3:
            return data[:at] + data[at + len(piece) :]
        case 4:
            return data + data[at:] + b"\0"
        case _:
            return b""
