"""Complete a function of the standard library: the prompt shows its start, the answer is the rest."""

import ast
import copy
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pocket.corpus.example import Example, in_held_out_bucket, make_example, stable_hash
from pocket.corpus.stdlib import Definition, definitions

MAX_CHARS = 560
MIN_BODY_LINES = 4
MAX_ANSWER_CHARS = 200
_MOST_ALIKE = (
    2  # lines of one shape: bodies that repeat themselves teach a small model to go round in circles
)
HELD_OUT_ONE_IN = 16
_MAX_SOURCE_LINES = 80  # longer ones, comments included, are hardly ever short enough: do not unparse them
_MAX_DIGITS = 24  # digits are single tokens: a table of numbers would overrun the context


@dataclass(frozen=True)
class Function:
    """A short function's text, without comments, cut into lines."""

    name: str
    owner: str
    """Module, or class for a method."""
    kind: str
    head: tuple[str, ...]
    """Decorators, `def` line and docstring."""
    body: tuple[str, ...]


def train(seed: int) -> Iterator[Example]:
    """Every training function once, shuffled, cut somewhere in the middle."""
    rng = random.Random(f"code:{seed}")
    pool = [f for f in functions() if not in_held_out_bucket(f.name, HELD_OUT_ONE_IN)]
    rng.shuffle(pool)
    for function in pool:
        yield _example(function, rng.uniform(0.25, 0.75))


def held_out() -> Iterator[Example]:
    """Functions whose name and body never occur in training, cut after two fifths of the body."""
    pool = [f for f in functions() if in_held_out_bucket(f.name, HELD_OUT_ONE_IN)]
    for function in sorted(pool, key=lambda f: stable_hash(f"order:{f.name}")):
        yield _example(function, 0.4)


@lru_cache(maxsize=1)
def functions() -> tuple[Function, ...]:
    """Short functions of the library, one per normalised body."""
    found: dict[str, Function] = {}
    for definition in definitions():
        node = definition.node
        if definition.kind in ("function", "method") and node.end_lineno - node.lineno < _MAX_SOURCE_LINES:
            function = _function(definition)
            if _usable(function):
                found.setdefault(_fingerprint(function), function)
    return tuple(found.values())


def _function(definition: Definition) -> Function:
    node = copy.copy(definition.node)
    doc = next(iter((ast.get_docstring(node) or "").strip().splitlines()), "").strip()
    rest = node.body[1:] if ast.get_docstring(node) is not None else node.body
    node.body = [ast.Expr(ast.Constant(doc or "x"))]
    head = ast.unparse(node).splitlines()
    body = ast.unparse(ast.Module(rest, [])).splitlines()
    head = head if doc else head[:-1]
    owner = definition.name.rsplit(".", 1)[0]
    return Function(
        definition.name, owner, definition.kind, tuple(head), tuple(f"    {line}" for line in body)
    )


def _usable(function: Function) -> bool:
    text = "\n".join(function.head + function.body)
    short = len(text) <= MAX_CHARS and len(function.body) >= MIN_BODY_LINES
    plain = text.isascii() and sum(map(str.isdigit, text)) <= _MAX_DIGITS
    return short and plain and max(Counter(map(_shape, function.body)).values()) <= _MOST_ALIKE


def _shape(line: str) -> str:
    """A line without its names and values: `self.a = b` and `self.c = d` agree."""
    return re.sub(r"\w+", "x", re.sub(r"'[^']*'", "x", line))


def _fingerprint(function: Function) -> str:
    """The body with string literals blanked: copies differing in a name, message or docstring agree."""
    return re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "''", "\n".join(function.body))


def _example(function: Function, fraction: float) -> Example:
    last = len(function.body) - 2
    cut = min(max(1, round(len(function.body) * fraction)), last)
    while cut < last and len("\n".join(function.body[cut:])) > MAX_ANSWER_CHARS:
        cut += 1
    snippet = "\n".join(function.head + function.body[:cut]) + "\n"
    prompt = f"Complete this Python {function.kind} from `{function.owner}`.\n```python\n{snippet}```"
    return make_example("code", prompt, "\n".join(function.body[cut:]), kind="code_parses", snippet=snippet)
