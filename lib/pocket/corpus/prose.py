"""Continue a paragraph of documentation: real sentences, of which few are foreseeable."""

import ast
import random
import re
from collections.abc import Iterator
from functools import lru_cache
from pydoc_data import topics as language_reference

from pocket.corpus.example import Example, in_held_out_bucket, make_example, stable_hash
from pocket.corpus.stdlib import definitions

HELD_OUT_ONE_IN = 16
TOPICS_HELD_OUT_ONE_IN = 5
MAX_PROMPT_CHARS = 360
MIN_ANSWER_CHARS = 30
MAX_ANSWER_CHARS = 260
_TASKS = ("Continue this text.", "Go on with the paragraph.", "What comes next?", "Write the next sentences.")


def train(seed: int) -> Iterator[Example]:
    """Every training paragraph once, shuffled, each cut after another of its sentences."""
    rng = random.Random(f"prose:{seed}")
    pool = [text for text, held in paragraphs().items() if held == {False}]
    rng.shuffle(pool)
    for paragraph in pool:
        yield _example(paragraph, rng.choice(_cuts(paragraph)), rng.choice(_TASKS))


def held_out() -> Iterator[Example]:
    """Paragraphs that never occur in training, each cut at its first possible place."""
    pool = [text for text, held in paragraphs().items() if held == {True}]
    trained = " ".join(" ".join(text.split()) for held, text in _texts() if not held)
    for paragraph in sorted(pool, key=lambda p: stable_hash(f"order:{p}")):
        example = _example(paragraph, _cuts(paragraph)[0], _TASKS[stable_hash(paragraph) % len(_TASKS)])
        if example.answer not in trained:  # documentation quotes itself
            yield example


@lru_cache(maxsize=1)
def paragraphs() -> dict[str, set[bool]]:
    """Paragraphs that can be cut between two sentences, and whether the places they stand at are held out.

    What opens alike at places of both sorts is used for neither.
    """
    found: dict[str, str] = {}
    places: dict[str, set[bool]] = {}
    for held, text in _texts():
        for block in re.split(r"\n\s*\n", text):
            paragraph = " ".join(block.replace("*", "").split())
            if _usable(block, paragraph) and _cuts(paragraph):
                opening = _sentences(paragraph)[0]
                found[paragraph] = opening
                places.setdefault(opening, set()).add(held)
    return {paragraph: places[opening] for paragraph, opening in found.items()}


def _texts() -> Iterator[tuple[bool, str]]:
    """Docstrings, split by their object's name as in chat and code, then the language reference."""
    for definition in definitions():
        held = in_held_out_bucket(definition.name, HELD_OUT_ONE_IN)
        yield held, ast.get_docstring(definition.node) or ""
    for name in sorted(language_reference.topics):
        yield in_held_out_bucket(f"topic:{name}", TOPICS_HELD_OUT_ONE_IN), language_reference.topics[name]


def _usable(block: str, paragraph: str) -> bool:
    indented = block.splitlines()[-1:] and block.splitlines()[-1].startswith("    ")
    letters = sum(c.isalpha() or c == " " for c in paragraph)
    plain = paragraph.isascii() and ">>>" not in paragraph and letters >= 0.9 * len(paragraph)
    return plain and not indented and paragraph[:1].isalpha() and paragraph.endswith(".")


def _sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)


def _cuts(paragraph: str) -> list[int]:
    """Numbers of sentences after which the paragraph may be cut."""
    sentences = _sentences(paragraph)
    return [i for i in range(1, len(sentences)) if _answer(sentences[i:])]


def _answer(rest: list[str]) -> str:
    """As many of the next sentences as fit; empty if that is too little."""
    text = ""
    for sentence in rest:
        if len(text) + len(sentence) + 1 > MAX_ANSWER_CHARS:
            break
        text = f"{text} {sentence}".strip()
    return text if len(text) >= MIN_ANSWER_CHARS else ""


def _example(paragraph: str, cut: int, task: str) -> Example:
    sentences = _sentences(paragraph)
    shown = " ".join(sentences[:cut])
    if len(shown) > MAX_PROMPT_CHARS:  # from the start of a word
        shown = shown[-MAX_PROMPT_CHARS:].split(" ", 1)[1]
    return make_example("prose", f"{task}\n\n{shown}", _answer(sentences[cut:]), kind="prose_sentences")
