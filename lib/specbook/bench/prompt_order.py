"""Prompts: put in one seeded order for every arm, handed to the load generator."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specbook.config import prompt_files as files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Traffic


def select(prompts: Sequence[Prompt], n: int, seed: int) -> list[Prompt]:
    """The first `n` prompts in the seed's order, starting again from the first when there are fewer."""
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return [order[i % len(order)] for i in range(n)]


def write_bench_file(path: Path, prompts: Sequence[Prompt], max_tokens: int) -> Path:
    """Write vLLM's custom dataset, one line per request; line i is `prompts[i]`.

    A conversation has its turns beside its last one, as `chat_messages`: see `engine.vllm.load_worker`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(_row(one, max_tokens)) + "\n" for one in prompts), encoding="utf-8")
    return path


def _row(prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    turns = {"chat_messages": prompt.turns()} if prompt.messages else {}
    return {"prompt": prompt.prompt, "output_tokens": max_tokens, **turns}


def measured_and_warmup(
    traffic: Traffic, num_requests: int, num_warmups: int
) -> tuple[list[Prompt], list[Prompt]]:
    """(measured, warm-up) prompts: the measured ones do not depend on how many warm-ups there are."""
    chosen = select(files.of(traffic), num_requests + num_warmups, traffic.seed)
    return chosen[:num_requests], chosen[num_requests:]
