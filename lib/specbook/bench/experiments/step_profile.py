"""What a decode step's time goes into, and what the engine's own options change: one sequence at a time."""

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
from pydantic import Field

from specbook import engine, paths
from specbook.bench import traffic_phases
from specbook.bench.experiments import register
from specbook.bench.traffic_phases import WARM_SEED, Phases, awake, in_turns
from specbook.config.schema import Frozen, Name, Speculation, Target
from specbook.engine.base import Profiler
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError
from specbook.records.experiment_results import StepTimes, Variant


class Options(Frozen):
    """The engine's own options, tried under a name."""

    name: Name
    extra_args: tuple[str, ...] = ()
    """Arguments for its command line."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Variables for its environment."""


class StepProfile(Frozen):
    """One method, and the options to try on it."""

    target: Target
    speculation: Speculation | None = None
    domain: Name
    options: tuple[Options, ...] = (Options(name="as planned"),)
    """Turns are taken; the others are compared with the first."""
    turns: int = Field(ge=1)
    num_requests: int = Field(ge=1)
    """Prompts of a turn, one after another; the same for all options, and others in the next turn."""
    max_tokens: int = Field(ge=2)


@register("step", StepProfile, StepTimes)
def profile_steps(asked: StepProfile) -> StepTimes:
    """All servers are up, and each runs in its own turns; what is profiled comes last.

    Raises:
        ConfigError: if the engine has no profiler, or the models cannot work.
        EngineError: if a server does not start or answer, or no step was profiled.
    """
    profiler = engine.for_target(asked.target).profiler
    if profiler is None:
        raise ConfigError(f"engine {asked.target.engine!r} has no profiler: leave the experiment out")
    how = Phases(
        phases=((asked.domain,),), num_requests=asked.num_requests, concurrency=1, max_tokens=asked.max_tokens
    )
    with ExitStack() as stack, tempfile.TemporaryDirectory(dir=paths.scratch("profile")) as top:
        folders = [Path(top) / str(i) for i in range(len(asked.options))]
        each = zip(asked.options, folders, strict=True)
        servers = [_started(asked, *both, profiler, stack) for both in each]
        for server in servers:
            with awake(server):
                _timed(server, how, WARM_SEED)
        turns = in_turns(servers, asked.turns, lambda server, turn: _timed(server, how, turn))
        each = zip(servers, folders, strict=True)
        steps = [_profiled(*both, how, asked.turns, profiler) for both in each]
    return StepTimes(variants=tuple(map(_variant, asked.options, turns, steps)))


def _started(asked: StepProfile, how: Options, folder: Path, profiler: Profiler, stack: ExitStack) -> Server:
    """A server with these options and the profiler at hand, paused."""
    arguments = (*asked.target.extra_args, *how.extra_args, *profiler.arguments(folder))
    server = Server(asked.target.model_copy(update={"extra_args": arguments}), asked.speculation)
    server.environment |= {**profiler.variables, **how.variables}
    stack.enter_context(server).pause()
    return server


def _timed(server: Server, how: Phases, turn: int) -> tuple[float, float]:
    """(median seconds a step, tokens a step) of one turn, by the load generator that chapters use."""
    result, step_s = traffic_phases.timed(server, how, turn)
    return step_s, sum(n - 1 for n in result["output_lens"]) / sum(map(len, result["itls"]))


def _profiled(
    server: Server, folder: Path, how: Phases, turn: int, profiler: Profiler
) -> list[dict[str, float]]:
    """Parts of each step of one more turn, of few prompts: a profile holds a thousand events of each.

    Raises:
        EngineError: if the server does not answer, or profiled nothing.
    """
    few = how.model_copy(update={"num_requests": min(how.num_requests, 2)})
    try:
        with awake(server):
            server.client.post(profiler.start_path)
            _timed(server, few, turn)
            server.client.post(profiler.stop_path)
    except httpx.HTTPError as error:
        raise EngineError(f"{server.target.name} was not profiled: {error}") from error
    steps = profiler.steps(folder)
    if not steps:
        raise EngineError(f"{server.target.name} profiled no step: {server.last_words()}")
    return steps


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
