"""The engine's side of the lossless check: greedy answers as token ids, and how nearly tied a fork was."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from specbook import provenance
from specbook.config import Frozen, Speculation, Target, resolve_model
from specbook.engine.vllm import VllmServer
from specbook.errors import EngineError
from specbook.lossless import Divergence
from specbook.provenance import Provenance


class Answer(Frozen):
    """One greedy answer as the engine produced it."""

    prompt_token_ids: tuple[int, ...]
    """After the chat template."""
    token_ids: tuple[int, ...]
    """The end-of-turn token included, if the answer ended by itself."""
    text: str


def ask(server: VllmServer, prompt: str, max_tokens: int) -> Answer:
    """One prompt through the chat template, decoded greedily.

    Raises:
        EngineError: if the server does not answer, or answers without token ids.
    """
    body = {
        "model": server.target.name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0.0,
        "return_token_ids": True,
    }
    headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
    try:
        url = f"{server.base_url}/chat/completions"
        # verify: plain HTTP needs no certificates, and reading them costs more than the request.
        sent = httpx.post(url, json=body, headers=headers, timeout=600, trust_env=False, verify=False)
        reply = sent.raise_for_status().json()
        choice = reply["choices"][0]
        return Answer(
            prompt_token_ids=reply["prompt_token_ids"],
            token_ids=choice["token_ids"],
            text=choice["message"]["content"] or "",
        )
    except httpx.HTTPError as error:
        raise EngineError(f"{server.base_url} did not answer: {error}") from error
    except (KeyError, ValueError) as error:
        raise EngineError(
            f"{server.base_url} gave no token ids: `return_token_ids` needs vLLM 0.32"
        ) from error


def answers(
    server: VllmServer, prompts: Sequence[str], max_tokens: int, concurrency: int = 1
) -> list[Answer]:
    """Greedy answers in the prompts' order; at concurrency 1 no answer depends on which others share its
    batch.
    """
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(lambda prompt: ask(server, prompt, max_tokens), prompts))


def generate(
    target: Target,
    speculation: Speculation | None,
    prompts: Sequence[str],
    max_tokens: int,
    concurrency: int = 1,
) -> tuple[list[Answer], Provenance]:
    """Start a server, answer every prompt greedily, stop it.

    Raises:
        ConfigError: for models that cannot work.
        EngineError: if the engine crashes or does not answer.
    """
    with VllmServer(target, speculation) as server:
        return answers(server, prompts, max_tokens, concurrency), _provenance(server)


def _provenance(server: VllmServer) -> Provenance:
    sha, dirty = provenance.git_state()
    return Provenance(
        git_sha=sha, git_dirty=dirty, versions=provenance.versions(),
        weights_sha256=provenance.weights_sha256(server.target, server.speculation), prompts_sha256="",
        server_command=tuple(map(provenance.portable, server.command)),
        server_env={name: provenance.portable(value) for name, value in server.environment.items()},
        bench_command=(), load_average_1min=provenance.load_average(),
    )  # fmt: skip


def margins(
    model: str, contexts: Sequence[Sequence[int]], found: Sequence[Divergence], dtype: str = "float32"
) -> list[float | None]:
    """Logit of token a minus logit of token b, by a forward pass of the target in transformers.

    Args:
        model: the target's folder or hub id.
        contexts: per divergence, the prompt's tokens and those both answers share, [tokens].
        found: the divergences, in the same order.
        dtype: of the pass. float32 asks what the weights say; the engine's own dtype would round again.

    Returns:
        Logits per divergence; None where an answer had ended.

    Raises:
        ValueError: if contexts and divergences differ in number.
    """
    if len(contexts) != len(found):
        raise ValueError(f"need one context per divergence, got {len(contexts)} and {len(found)}")
    if not found:
        return []
    import torch
    from transformers import AutoModelForCausalLM

    target = AutoModelForCausalLM.from_pretrained(resolve_model(model), dtype=getattr(torch, dtype)).eval()

    def gap(context: Sequence[int], fork: Divergence) -> float | None:
        if fork.token_a is None or fork.token_b is None:
            return None
        logits = target(torch.tensor([list(context)]), logits_to_keep=1).logits[0, -1]
        return float(logits[fork.token_a] - logits[fork.token_b])

    with torch.inference_mode():
        return [gap(context, fork) for context, fork in zip(contexts, found, strict=True)]
