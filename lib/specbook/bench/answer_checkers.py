"""Judge an answer without a model: exact where the task has one answer, structural where it has many."""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def check(row: Mapping[str, Any], output: str) -> bool:
    """True if `output` is an acceptable answer to the held-out example `row`.

    Args:
        row: an example as a mapping; only `row["check"]` is read.
        output: the model's answer, without special tokens.

    Raises:
        ValueError: if `row["check"]["kind"]` names no checker.
    """
    spec = row["check"]
    if spec["kind"] not in _CHECKERS:
        raise ValueError(f"unknown check {spec['kind']!r}: use one of {', '.join(_CHECKERS)}")
    return _CHECKERS[spec["kind"]](spec, output)


def knows(row: Mapping[str, Any]) -> bool:
    """Whether a line of a prompts' file says how to judge its answer, in a way that is known here."""
    spec = row.get("check")
    return isinstance(spec, Mapping) and spec.get("kind") in _CHECKERS and "domain" in row


def loops(token_ids: Sequence[int], n: int = 8, times: int = 4) -> bool:
    """True if one run of `n` tokens occurs `times` times or more, overlaps counted: the answer is stuck."""
    if n < 1 or times < 1:
        raise ValueError(f"need n >= 1 and times >= 1, got {n=}, {times=}")
    counts = Counter(tuple(token_ids[i : i + n]) for i in range(len(token_ids) - n + 1))
    return max(counts.values(), default=0) >= times


def _math_exact(spec: Mapping[str, Any], output: str) -> bool:
    _, marker, tail = output.rpartition("####")
    number = re.match(r"\s*(-?\d+)\s*$", tail)
    return bool(marker and number) and int(number[1]) == spec["answer"]


def _last_number(spec: Mapping[str, Any], output: str) -> bool:
    """The last number is the answer, however it is introduced; a comma may part thousands."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", output))
    return bool(numbers) and float(numbers[-1]) == spec["answer"]


def _json_exact(spec: Mapping[str, Any], output: str) -> bool:
    try:
        # As text, so that 1, 1.0 and true stay different.
        return json.dumps(json.loads(output), sort_keys=True) == json.dumps(spec["object"], sort_keys=True)
    except ValueError:
        return False


def _sql_exact(spec: Mapping[str, Any], output: str) -> bool:
    """The same query, however it is broken into lines; a semicolon may end it."""
    said, asked = (" ".join(text.split()).rstrip("; ") for text in (output, spec["query"]))
    return said == asked


def _code_parses(spec: Mapping[str, Any], output: str) -> bool:
    """Snippet and output together are one function; the output must not be empty."""
    try:
        tree = ast.parse(spec["snippet"] + output)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    one_function = len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef)
    return bool(output.strip()) and one_function


def _chat_names(spec: Mapping[str, Any], output: str) -> bool:
    kind = re.search(rf"\b{re.escape(spec['object_kind'])}\b", output)
    return f"`{spec['name']}`" in output and kind is not None


def _prose_sentences(spec: Mapping[str, Any], output: str) -> bool:
    """Whole sentences, none of them said twice."""
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", output.strip()) if s]
    whole = output.strip()[-1:] in (".", "!", "?") and len(output.split()) >= 4
    return whole and len(set(sentences)) == len(sentences)


_CHECKERS: dict[str, Callable[[Mapping[str, Any], str], bool]] = {
    "math_exact": _math_exact,
    "last_number": _last_number,
    "json_exact": _json_exact,
    "sql_exact": _sql_exact,
    "code_parses": _code_parses,
    "chat_names": _chat_names,
    "prose_sentences": _prose_sentences,
}
