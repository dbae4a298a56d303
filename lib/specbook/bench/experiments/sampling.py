"""Is speculation lossless above temperature 0: does it draw answers from the target's own distribution?

The same prompts are answered again and again, every answer with a seed of its own. What must agree (a server
that was started again), what must not (a sampler that is wrong on purpose, and temperatures that are slightly
off) are sampled beside it: without them a test that rejects nothing says nothing.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from pydantic import Field

from specbook.bench import greedy
from specbook.bench.experiments import register
from specbook.config import prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Frozen, Speculation, Target, Traffic
from specbook.engine import counters
from specbook.engine.client import Asked
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import BASELINE, RESTARTED, WRONG, SampledAnswers, SampledArm


class Sampling(Frozen):
    """One method on prompts of one or more kinds of traffic."""

    target: Target
    speculation: Speculation
    traffic: tuple[Traffic, ...] = Field(min_length=1)
    """Each names its prompts; how answers are sampled, and their cap, is said below for all."""
    prompts_per_domain: int = Field(ge=1)
    samples: int = Field(ge=2)
    """Answers to each prompt, in each arm and restart."""
    max_tokens: int = Field(ge=1)
    """Output cap: the first tokens of an answer, where many answers can still be compared."""
    temperature: float = Field(gt=0, allow_inf_nan=False)
    other_temperatures: tuple[float, ...] = ()
    """Sampled without speculation: what the test sees of a known deviation."""
    released_args: tuple[str, ...] = ()
    """Further arguments with which the engine samples as it was released; none: it does so anyway."""
    wrong_rates: tuple[float, ...]
    """Joint acceptance that the wrong sampler plays, whatever the target thinks of the draft."""
    restarts: int = Field(ge=1)
    concurrency: int = Field(ge=1)


@register("sampling", Sampling, SampledAnswers)
def sample(asked: Sampling) -> SampledAnswers:
    """Start each arm's server in turn, as often as there are restarts.

    Raises:
        ConfigError: if prompts or models cannot be used.
        EngineError: if a server does not start or answer.
    """
    kinds = map(prompt_files.for_traffic, asked.traffic)
    prompts = [one for kind in kinds for one in kind[: asked.prompts_per_domain]]
    seeds = count()
    arms = [arm for restart in range(asked.restarts) for arm in _restart(asked, prompts, restart, seeds)]
    return SampledAnswers(prompt_ids=tuple(prompt.id for prompt in prompts), arms=tuple(arms))


def _restart(
    asked: Sampling, prompts: Sequence[Prompt], restart: int, seeds: Iterator[int]
) -> Iterator[SampledArm]:
    wrong = asked.speculation.model_copy(update={"synthetic_acceptance_rates": asked.wrong_rates})
    others = (asked.temperature, *asked.other_temperatures)
    ours, label = asked.target, asked.speculation.label
    released = ours.model_copy(update={"extra_args": (*ours.extra_args, *asked.released_args)})
    servers = [
        (BASELINE, ours, None),
        (RESTARTED, ours, None),
        (label, ours, asked.speculation),
        *([(f"{label}, as released", released, asked.speculation)] if asked.released_args else []),
        (WRONG, ours, wrong),
    ]
    for arm, target, how in servers:
        with Server(target, how) as server:
            for temperature in others if arm == RESTARTED else others[:1]:
                before = server.counters()
                answers = _answers(server, asked, prompts, temperature, seeds)
                after = counters.settled(server.counters, before, sum(map(len, answers)))
                yield SampledArm(
                    arm=arm, restart=restart, temperature=temperature, answers=answers,
                    spec_decode=counters.delta(before, after).spec_decode,
                )  # fmt: skip


def _answers(
    server: Server, asked: Sampling, prompts: Sequence[Prompt], temperature: float, seeds: Iterator[int]
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """[prompts, samples, tokens]; no two answers of an experiment share a seed, for such would be alike."""
    turns = [prompt.turns() for prompt in prompts for _ in range(asked.samples)]

    def ask(turn: Asked, seed: int) -> tuple[int, ...]:
        return greedy.ask(server, turn, asked.max_tokens, temperature=temperature, seed=seed).token_ids

    try:
        with ThreadPoolExecutor(asked.concurrency) as pool:
            drawn = list(pool.map(ask, turns, seeds))
    except EngineError as error:
        raise EngineError(f"sampled answers of {server.target.name}: {server.diagnosis(error)}") from error
    return tuple(tuple(drawn[i : i + asked.samples]) for i in range(0, len(drawn), asked.samples))
