"""Explain a module, class or function: what it is, and then its docstring's own words."""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pocket.corpus.example import Example, in_held_out_bucket, make_example, stable_hash
from pocket.corpus.stdlib import Definition, definitions

HELD_OUT_ONE_IN = 16  # the split code uses, on the same names: one held-out object is held out of both
MIN_WORDS_CHARS = 40
MAX_WORDS_CHARS = 330
_MAX_PROMPT_CHARS = 260
# The first sentence stands in the prompt, so that there is something to go by; the rest must be found.
_QUESTIONS = (
    "What does `{name}` do?", "Explain the {kind} `{name}`.", "What is `{name}` for?",
    "Tell me about `{name}`.",
    "Describe the Python {kind} `{name}` in a few sentences.", "I found `{name}` in some code. What is it?",
)  # fmt: skip


@dataclass(frozen=True)
class Topic:
    """What is known about one object."""

    name: str
    kind: str
    signature: str
    """`copytree(src, dst)` or `class Error(OSError)`; empty for modules."""
    place: str
    """`a function in the `shutil` module`."""
    sentences: tuple[str, ...]
    """The docstring's own, from the first on, as many as fit."""


def train(seed: int) -> Iterator[Example]:
    """Every training object once, shuffled."""
    rng = random.Random(f"chat:{seed}")
    pool = [t for t in topics() if not in_held_out_bucket(t.name, HELD_OUT_ONE_IN)]
    rng.shuffle(pool)
    return (_example(topic, rng.choice(_QUESTIONS)) for topic in pool)


def held_out() -> Iterator[Example]:
    """Objects whose names and docstrings never occur in training."""
    pool = [t for t in topics() if in_held_out_bucket(t.name, HELD_OUT_ONE_IN)]
    for topic in sorted(pool, key=lambda t: stable_hash(f"order:{t.name}")):
        yield _example(topic, _QUESTIONS[stable_hash(f"question:{topic.name}") % len(_QUESTIONS)])


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """Documented objects of the library, one for every text."""
    found: dict[str, Topic] = {}
    for definition in definitions():
        sentences = _sentences(definition.node)
        if sentences:
            topic = Topic(
                definition.name, definition.kind, _signature(definition), _place(definition), sentences
            )
            if len(_example(topic, _QUESTIONS[4]).prompt) <= _MAX_PROMPT_CHARS:
                found.setdefault(sentences[0].lower(), topic)
    return tuple(found.values())


def _example(topic: Topic, question: str) -> Example:
    lines = [question.format(name=topic.name, kind=topic.kind), ""]
    lines += [f"Signature: {topic.signature}"] * bool(topic.signature) + [f"Docstring: {topic.sentences[0]}"]
    answer = " ".join([f"`{topic.name}` is {topic.place}.", *topic.sentences])
    return make_example(
        "chat", "\n".join(lines), answer, kind="chat_names", name=topic.name, object_kind=topic.kind
    )


def _sentences(node: ast.AST) -> tuple[str, ...]:
    """Whole sentences of the docstring's plain paragraphs, while they fit; none if they are too few."""
    paragraphs = re.split(r"\n\s*\n", (ast.get_docstring(node) or "").strip())
    plain = [" ".join(p.split()) for p in paragraphs[:3]]
    text = " ".join(p if p[-1:] in ".!?:" else f"{p}." for p in plain if _plain(p))
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text):
        if sum(map(len, kept)) + len(kept) + len(sentence) > MAX_WORDS_CHARS:
            break
        kept.append(sentence)
    return tuple(kept) if len(" ".join(kept)) >= MIN_WORDS_CHARS else ()


def _plain(paragraph: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in paragraph)
    return (
        paragraph.isascii()
        and ">>>" not in paragraph
        and "`" not in paragraph
        and letters >= 0.85 * len(paragraph)
    )


def _place(definition: Definition) -> str:
    name, module = definition.name, definition.module
    if definition.kind == "module":
        return "a module of the Python standard library"
    if definition.kind == "method":
        return f"a method of the class `{name.split('.')[-2]}` in `{module}`"
    return f"a {definition.kind} in the `{module}` module"


def _signature(definition: Definition) -> str:
    node = definition.node
    if definition.kind == "module":
        return ""
    if definition.kind == "class":
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))})".replace("()", "")
    return f"{node.name}({ast.unparse(node.args)})"
