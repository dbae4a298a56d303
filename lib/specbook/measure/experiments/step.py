"""What a decode step's time goes into, and what the engine's own options change: one sequence at a time."""

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
from pydantic import Field

from specbook import paths
from specbook.engine import counters, registry
from specbook.engine.base import Profiler
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError
from specbook.measure.experiments.base import register
from specbook.plan import prompts
from specbook.plan.prompts import Prompt
from specbook.plan.schema import Frozen, Name, Speculation, Target, Traffic
from specbook.records.stepped import Stepped, Variant


class Options(Frozen):
    """The engine's own options, tried under a name."""

    name: Name
    extra_args: tuple[str, ...] = ()
    """Of its command line."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Of its environment."""


class Asked(Frozen):
    """One method, and the options to try on it."""

    target: Target
    speculation: Speculation | None = None
    domain: Name
    options: tuple[Options, ...] = (Options(name="as planned"),)
    """Turns are taken; the others are held against the first."""
    turns: int = Field(ge=1)
    num_requests: int = Field(ge=1)
    """Prompts of a turn, one after another; the same in each."""
    max_tokens: int = Field(ge=2)


@register("step", Asked, Stepped)
def run(asked: Asked) -> Stepped:
    """All servers are up, and each runs in its own turns; what is profiled comes last.

    Raises:
        ConfigError: if the engine has no profiler, or the models cannot work.
        EngineError: if a server does not start or answer, or no step was profiled.
    """
    profiler = registry.of(asked.target).profiler
    if profiler is None:
        raise ConfigError(f"engine {asked.target.engine!r} has no profiler: leave the experiment out")
    told = prompts.of(Traffic(domain=asked.domain))[: asked.num_requests]
    with ExitStack() as stack, tempfile.TemporaryDirectory(dir=paths.scratch("profile")) as top:
        folders = [Path(top) / str(i) for i in range(len(asked.options))]
        servers = [
            _started(asked, *each, profiler, stack) for each in zip(asked.options, folders, strict=True)
        ]
        timed = [_in_turn(server, told, asked.max_tokens) for server in servers]  # nobody keeps the first
        turns: list[list[tuple[float, float]]] = [[] for _ in timed]
        for turn in range(asked.turns):
            order = list(range(len(servers)))
            random.Random(turn).shuffle(order)
            for i in order:
                turns[i].append(_in_turn(servers[i], told, asked.max_tokens))
        return Stepped(
            variants=tuple(
                _variant(option, turn, _profiled(server, told, asked.max_tokens, profiler, folder))
                for option, turn, server, folder in zip(asked.options, turns, servers, folders, strict=True)
            )
        )


def _started(asked: Asked, how: Options, folder: Path, profiler: Profiler, stack: ExitStack) -> Server:
    """A server with these options and the profiler at hand, paused."""
    arguments = (*asked.target.extra_args, *how.extra_args, *profiler.arguments(folder))
    server = Server(asked.target.model_copy(update={"extra_args": arguments}), asked.speculation)
    server.environment |= {**profiler.variables, **how.variables}
    stack.enter_context(server).pause()
    server.client.prepare()
    return server


def _in_turn(server: Server, told: Sequence[Prompt], max_tokens: int) -> tuple[float, float]:
    """The server runs for one turn: (seconds a step, tokens a step)."""
    server.resume()
    try:
        return _timed(server, told, max_tokens)
    finally:
        server.pause()


def _timed(server: Server, told: Sequence[Prompt], max_tokens: int) -> tuple[float, float]:
    """Seconds and tokens after each answer's first chunk, over the steps that took them."""
    before, spent, tokens = server.counters(), 0.0, 0
    for prompt in told:
        first = last = None
        for piece in server.client.stream(prompt.turns(), max_tokens):
            if piece.choices and piece.choices[0].delta.content:
                last = time.perf_counter()
                first = first or last
            tokens += piece.usage.completion_tokens - 1 if piece.usage else 0
        if first is None or last is None:
            raise EngineError(
                f"{server.target.name} answered {prompt.id} with nothing: {server.last_words()}"
            )
        spent += last - first
    grown = counters.delta(before, counters.settled(server.counters, before, len(told)))
    steps = grown.spec_decode.num_drafts if grown.spec_decode else tokens
    if not steps:
        raise EngineError(f"{server.target.name} took no decode step: its answers are too short to time one")
    return spent / steps, tokens / steps


def _profiled(
    server: Server, told: Sequence[Prompt], max_tokens: int, profiler: Profiler, folder: Path
) -> list[dict[str, float]]:
    """PARTS of each step of one more turn.

    Raises:
        EngineError: if the server does not answer, or profiled nothing.
    """
    server.resume()
    try:
        server.client.post(profiler.start_path)
        _timed(server, told, max_tokens)
        server.client.post(profiler.stop_path)
    except httpx.HTTPError as error:
        raise EngineError(f"{server.target.name} was not profiled: {error}") from error
    finally:
        server.pause()
    found = profiler.steps(folder)
    if not found:
        raise EngineError(f"{server.target.name} profiled no step: {server.last_words()}")
    return found


def _variant(
    how: Options, turns: Sequence[tuple[float, float]], steps: Sequence[dict[str, float]]
) -> Variant:
    """A step is the median: of the first and last of an answer, some were longer."""
    whole = [sum(step.values()) for step in steps]
    parts = {part: statistics.median(step[part] for step in steps) for part in steps[0]}
    total = sum(parts.values())
    return Variant(
        name=how.name, length=statistics.fmean(length for _, length in turns),
        step_s=tuple(step_s for step_s, _ in turns), profiled_step_s=statistics.median(whole),
        parts={part: spent / total for part, spent in parts.items()},
    )  # fmt: skip
