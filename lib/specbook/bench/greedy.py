"""The engine's side of the lossless check: greedy answers as token ids, and how nearly tied a fork was."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from specbook import paths
from specbook.bench import provenance
from specbook.config.schema import Frozen, Speculation, Target
from specbook.engine.client import Asked
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.origin import Provenance


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
    reply = server.client.chat(prompt, max_tokens, return_token_ids=True, **sampling)
    tokens = getattr(reply, "prompt_token_ids", None), getattr(reply.choices[0], "token_ids", None)
    if None in tokens:
        raise EngineError(
            f"{server.client.base_url} gave no token ids: this release of the engine lacks `return_token_ids`"
        )
    text = reply.choices[0].message.content or ""
    return Answer(prompt_token_ids=tokens[0], token_ids=tokens[1], text=text)


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
        arm = server.speculation.label if server.speculation else "baseline"
        where = f"{server.target.name}, {arm} ({server.target.execution})"
        raise EngineError(f"greedy answers of {where}: {server.diagnosis(error)}") from error


def generate(
    target: Target,
    speculation: Speculation | None,
    prompts: Sequence[Asked],
    max_tokens: int,
    concurrency: int = 1,
) -> tuple[list[Answer], Provenance]:
    """Start a server, answer every prompt greedily, stop it.

    Raises:
        ConfigError: for models that cannot work.
        EngineError: if the engine crashes or does not answer.
    """
    with Server(target, speculation) as server:
        return answers(server, prompts, max_tokens, concurrency), origin(server)


def origin(server: Server) -> Provenance:
    """Where a server's answers come from; the prompts' digest is the caller's to fill in."""
    found = provenance.today(server.target, server.speculation)
    return found.model_copy(update={"server_command": tuple(map(paths.portable, server.command))})


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
    reply = server.client.complete(context, 1, logprobs=0, allowed_token_ids=[token])
    rated = reply.choices[0].logprobs
    if rated is None or not rated.token_logprobs or rated.token_logprobs[0] is None:
        raise EngineError(f"{server.client.base_url} did not say how likely token {token} was")
    return float(rated.token_logprobs[0])
