"""What would this traffic accept? Prompts one after the other, each with the counters it alone has moved."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol

from specbook.config.prompt_files import Prompt
from specbook.engine import counters
from specbook.engine.base import Counters
from specbook.engine.client import Client, output_tokens
from specbook.errors import ConfigError, EngineError, RefusedError
from specbook.records.experiment_results import Probed

MOST_REFUSED = 5
"""Prompts that a server refuses, one after the other, until nothing but refusals is expected of it."""


class Asked(Protocol):
    """A server of ours, or one that runs already."""

    client: Client

    def counters(self) -> Counters | None:
        """What it has counted since its start; None if it does not show that."""


def interleaved(prompts: Sequence[Prompt], seed: int, unnamed: str) -> list[Prompt]:
    """A prompt of each domain, then a second of each: wherever one stops, all domains were asked alike.

    Prompts without a domain get the one called `unnamed`.
    """
    shuffled = [p if p.domain else p.model_copy(update={"domain": unnamed}) for p in prompts]
    random.Random(seed).shuffle(shuffled)
    turns: dict[str | None, Iterator[int]] = defaultdict(count)
    return sorted(shuffled, key=lambda prompt: next(turns[prompt.domain]))


def probe(
    server: Asked,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Probed]:
    """Ask prompts in their order until they or the seconds are spent; the last one begun is finished.

    Raises:
        ConfigError: if the server shows no counters, or does not draft.
        EngineError: if it stops answering, refuses one prompt after the other, or its counters are not of its
            answers.
    """
    shown(server)
    server.client.prepare()
    refused, until = 0, clock() + seconds
    for prompt in prompts:
        if clock() >= until:
            return
        probed = _ask(server, prompt, max_tokens, clock)
        refused = refused + 1 if probed.refused else 0
        if refused == MOST_REFUSED:
            raise EngineError(f"{refused} prompts on end were refused, the last with: {probed.refused}")
        yield probed


def shown(server: Asked) -> Counters:
    """What it has counted; raises ConfigError if it does not show that."""
    counted = server.counters()
    if counted is None:
        raise ConfigError(f"{server.client.url} does not show its counters: nothing tells what it accepts")
    if counted.lacks:
        raise ConfigError(f"{server.client.url}: its counters lack {counted.lacks}")
    return counted


def _ask(server: Asked, prompt: Prompt, max_tokens: int, clock: Callable[[], float]) -> Probed:
    who = {"prompt_id": prompt.id, "domain": prompt.domain}
    before, started = server.counters(), clock()
    try:
        answer = server.client.chat(prompt.turns(), max_tokens)
    except RefusedError as error:
        return Probed(**who, output_tokens=0, e2e_s=0.0, spec_decode=None, refused=str(error))
    took = {"output_tokens": output_tokens(answer), "e2e_s": clock() - started}
    counted = counters.delta(before, counters.settled(server.counters, before, finished=1))
    if counted.spec_decode is None:
        raise ConfigError(f"{server.client.url} does not draft: there is nothing to accept. Give it a draft")
    if why := counters.not_of(counted, took["output_tokens"]):
        raise EngineError(f"{server.client.url}: {why}")
    alone = counted.server.requests_finished == 1
    alone = alone and counted.server.generation_tokens == took["output_tokens"]  # else others are under way
    return Probed(**who, **took, spec_decode=counted.spec_decode if alone else None)
