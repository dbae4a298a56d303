"""Greedy answers as token ids, how nearly tied a fork was, and whether an answer is right.

Answers are judged without a model: exactly where the task has one answer, by structure where it has many.
"""

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from specbook.config.schema import Arm, Frozen
from specbook.engine.client import Asked
from specbook.engine.server import Server
from specbook.errors import EngineError


class Answer(Frozen):
    """One greedy answer as the engine produced it."""

    prompt_token_ids: tuple[int, ...]
    """After the chat template."""
    token_ids: tuple[int, ...]
    """The end-of-turn token included, if the answer ended by itself."""
    text: str


def ask(server: Server, prompt: Asked, max_tokens: int, **sampling: Any) -> Answer:
    """One prompt through the chat template, decoded greedily unless `sampling` says how else.

    Raises:
        EngineError: if the server does not answer, or answers without token ids.
    """
    reply, choice = _read(server, server.client.chat(prompt, max_tokens, return_token_ids=True, **sampling))
    tokens = reply.get("prompt_token_ids"), choice.get("token_ids")
    if None in tokens:
        raise EngineError(
            f"{server.client.base_url} gave no token ids: this release of the engine lacks `return_token_ids`"
        )
    return Answer(
        prompt_token_ids=tokens[0], token_ids=tokens[1], text=choice["message"].get("content") or ""
    )


def _read(server: Server, answer: httpx.Response) -> tuple[dict[str, Any], dict[str, Any]]:
    """An answer's JSON, and its choice."""
    try:
        return (body := answer.json()), body["choices"][0]
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(f"{server.client.base_url} gave no answer that can be read: {error!r}") from error


def answers(
    server: Server, prompts: Sequence[Asked], max_tokens: int, concurrency: int = 1, **sampling: Any
) -> list[Answer]:
    """Answers in the prompts' order, greedy unless `sampling` says how else; at concurrency 1 no answer
    depends on which others share its batch.

    Raises:
        EngineError: if an answer fails, with the arm it was of and the engine's last words.
    """
    try:
        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(lambda prompt: ask(server, prompt, max_tokens, **sampling), prompts))
    except EngineError as error:
        where = f"{server.target.name}, {Arm(server.target, server.speculation)}"
        raise EngineError(f"greedy answers of {where}: {server.diagnosis(error)}") from error


def margin_logits(server: Server, context: Sequence[int], token_a: int, token_b: int) -> float:
    """How much higher the server's model rates token a than token b after these tokens.

    The difference of log-probabilities is that of logits: what makes them sum to one is the same for both. It
    takes two prefills, so that it costs the same as two short answers, whatever the model's size.

    Raises:
        EngineError: if the server does not answer, or tells probabilities of after the choice.
    """
    a, b = (_log_probability(server, context, token) for token in (token_a, token_b))
    if math.exp(a) + math.exp(b) > 1.01:
        raise EngineError(
            f"{server.client.base_url} gives two tokens probabilities {math.exp(a):.3f} and "
            f"{math.exp(b):.3f}: it must tell them as they were before it chose (raw log-probabilities)"
        )
    return a - b


def _log_probability(server: Server, context: Sequence[int], token: int) -> float:
    """The server may write only this token, and says how likely it was before that."""
    answer = server.client.complete(context, 1, logprobs=0, allowed_token_ids=[token])
    _, choice = _read(server, answer)
    rated = (choice.get("logprobs") or {}).get("token_logprobs")
    if not rated or rated[0] is None:
        raise EngineError(f"{server.client.base_url} did not say how likely token {token} was")
    return float(rated[0])


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


def loops(token_ids: Sequence[int]) -> bool:
    """True if one run of 8 tokens occurs 4 times or more, overlaps counted: the answer is stuck."""
    counts = Counter(tuple(token_ids[i : i + 8]) for i in range(len(token_ids) - 7))
    return max(counts.values(), default=0) >= 4


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
    query, reference = (" ".join(text.split()).rstrip("; ") for text in (output, spec["query"]))
    return query == reference


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
