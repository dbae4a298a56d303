"""Questions to a table: its columns and a request in, one query out. Traffic that nobody trained for.

Neither the target nor its heads have seen any of it; the target's next version learns from it, and not from
the patterns that are held out.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pocket.corpus.example import Example, make_example, streams
from pocket.corpus.words import CITIES, COLOURS, NAMES, SURNAMES, THINGS


class Table(NamedTuple):
    """Columns of words with what may stand in them, and columns of numbers with their ends."""

    words: dict[str, Sequence[str]]
    numbers: dict[str, tuple[int, int]]


class Clause(NamedTuple):
    """A part of a request: what kind it is, how it is said, and what it is in SQL."""

    kind: str = "-"
    said: str = ""
    sql: str = ""


Question = Callable[[random.Random, str], tuple[Clause, Clause]]
"""Function of a table's name: what is asked for, and what follows the condition (groups, order, limit)."""

TABLES = {
    "orders": Table({"customer": NAMES, "city": CITIES}, {"items": (1, 20), "total": (5, 500)}),
    "rooms": Table({"hotel": SURNAMES, "city": CITIES}, {"floor": (1, 30), "price": (40, 300)}),
    "employees": Table({"name": NAMES, "office": CITIES}, {"age": (20, 65), "salary": (20, 95)}),
    "flights": Table({"origin": CITIES, "pilot": SURNAMES}, {"seats": (50, 300), "minutes": (40, 600)}),
    "bikes": Table({"maker": SURNAMES, "colour": COLOURS}, {"gears": (3, 28), "price": (100, 900)}),
    "products": Table({"product": THINGS, "colour": COLOURS}, {"stock": (0, 400), "price": (2, 90)}),
    "players": Table({"player": NAMES, "team": CITIES}, {"goals": (0, 60), "age": (16, 40)}),
    "parcels": Table({"sender": NAMES, "city": CITIES}, {"weight": (1, 30), "days": (1, 15)}),
}
_TASKS = ("Write a query for", "Give me the SQL for", "I need", "Query the table for")
_MEASURES = {"average": "AVG", "sum": "SUM", "highest": "MAX", "lowest": "MIN"}
_SIDES = {"above": ">", "below": "<"}


def _example(rng: random.Random) -> tuple[str, Example]:
    table = rng.choice(list(TABLES))
    wanted, rest = rng.choice(_QUESTIONS)(rng, table)
    where = _where(rng, table)
    columns = ", ".join([*TABLES[table].words, *TABLES[table].numbers])
    said = f"{wanted.said}{where.said}{rest.said}"
    query = f"SELECT {wanted.sql}\nFROM {table}{where.sql}{rest.sql};"
    prompt = f"Table {table}: {columns}\n\n{rng.choice(_TASKS)} {said}."
    pattern = f"{table}: {wanted.kind} {where.kind} {rest.kind}"
    return pattern, make_example("sql", prompt, query, kind="sql_exact", query=query)


def _listing(rng: random.Random, table: str) -> tuple[Clause, Clause]:
    one, other = rng.sample([*TABLES[table].words, *TABLES[table].numbers], 2)
    return Clause("list", f"the {one} and the {other} of all {table}", f"{one}, {other}"), _order(rng, table)


def _counting(rng: random.Random, table: str) -> tuple[Clause, Clause]:
    return Clause("count", f"the number of {table}", "COUNT(*)"), Clause()


def _grouping(rng: random.Random, table: str) -> tuple[Clause, Clause]:
    measure, group = rng.choice(list(_MEASURES)), rng.choice(list(TABLES[table].words))
    number = rng.choice(list(TABLES[table].numbers))
    said = f"the {measure} {number} of {table} for each {group}"
    asked = Clause(measure, said, f"{group}, {_MEASURES[measure]}({number})")
    return asked, Clause("group", "", f"\nGROUP BY {group}")


_QUESTIONS: tuple[Question, ...] = (_listing, _listing, _counting, _grouping)


def _where(rng: random.Random, table: str) -> Clause:
    """No condition, one on a number, one on a word, or one on each."""
    found = []
    if rng.random() < 0.7:
        column, (low, high) = rng.choice(list(TABLES[table].numbers.items()))
        side, value = rng.choice(list(_SIDES)), rng.randint(low, high)
        found.append(Clause(side, f"the {column} is {side} {value}", f"{column} {_SIDES[side]} {value}"))
    if rng.random() < 0.6:
        column, values = rng.choice(list(TABLES[table].words.items()))
        value = rng.choice(values)
        found.append(Clause("is", f"the {column} is {value}", f"{column} = '{value}'"))
    if not found:
        return Clause()
    kinds, said, sql = zip(*found, strict=True)
    return Clause("+".join(kinds), f" where {' and '.join(said)}", f"\nWHERE {' AND '.join(sql)}")


def _order(rng: random.Random, table: str) -> Clause:
    """As it comes, or sorted; of a sorted list perhaps only the top."""
    if rng.random() < 0.4:
        return Clause()
    column, down = rng.choice(list(TABLES[table].numbers)), rng.random() < 0.5
    most = rng.choice((0, 0, rng.randint(2, 20)))
    said = f", sorted by {column}" + " from the highest down" * down + f", only the first {most}" * bool(most)
    sql = f"\nORDER BY {column}" + " DESC" * down + f"\nLIMIT {most}" * bool(most)
    return Clause(f"{'down' if down else 'up'}{'+top' * bool(most)}", said, sql)


train, held_out = streams("sql", _example)
"""The table and the clauses of a held-out request are put together by no training."""
