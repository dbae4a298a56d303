"""A day of traffic in minutes: Poisson arrivals whose rate rises and falls, the same for every arm.

The number of requests in flight follows the rate, so a schedule of K crosses its thresholds as a busy server
does. Beside it stand servers without speculation and with one K all day: the same requests at the same times.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Self

from pydantic import Field, model_validator

from specbook.bench.experiments import register
from specbook.bench.open_loop import OpenLoop, Segment
from specbook.bench.traffic_phases import WARM_SEED
from specbook.config import prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Frozen, Name, Speculation, Target, Traffic
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import BASELINE, DayArm, DayArms, OpenLoopRequests

WARM_S = 8.0
"""At the highest rate, before the day: the first batches after a start take longer."""


class Day(Frozen):
    """Drafts beside no speculation, and a rate of arrivals by time."""

    target: Target
    speculations: tuple[Speculation, ...] = Field(min_length=1)
    """An arm each: with one K all day, or with K by batch."""
    domains: tuple[Name, ...] = Field(min_length=1)
    prompts: Mapping[Name, str] = Field(default_factory=dict)
    """Domain -> its file, where that is not the target's own."""
    segments: tuple[Segment, ...] = Field(min_length=1)
    max_tokens: int = Field(ge=2)
    restarts: int = Field(ge=1)
    """Each starts every arm's server once, in an order of its own, and draws arrivals and prompts anew."""
    seed: int = 0

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        if not any(one.num_speculative_tokens_per_batch_size for one in self.speculations):
            raise ValueError("no speculation has num_speculative_tokens_per_batch_size: give one its rows")
        if len(set(self.speculations)) < len(self.speculations):
            raise ValueError("speculations has one of them twice: name it once")
        if not any(one.rate_per_s for one in self.segments):
            raise ValueError("no segment has a rate_per_s above 0: give one some arrivals")
        if strange := sorted(set(self.prompts) - set(self.domains)):
            raise ValueError(f"prompts names {', '.join(strange)}, and domains does not: add it there")
        if self.max_tokens >= (most := self.target.max_model_len):
            raise ValueError(f"max_tokens {self.max_tokens} leaves no room for a prompt in {most}: lower it")
        return self

    def traffic(self) -> list[Traffic]:
        """Each domain with its prompts."""
        return [Traffic(domain=name, prompts=self.prompts.get(name)) for name in self.domains]


@register("day", Day, DayArms)
def day(asked: Day) -> DayArms:
    """One server after another, each for a day.

    Raises:
        ConfigError: if prompts or models cannot be used.
        EngineError: if a server does not start, answers nothing, or ends. Requests that are lost are a
            result.
    """
    prompts = [one for kind in asked.traffic() for one in prompt_files.for_traffic(kind)]
    made = []
    arms = [None, *asked.speculations]
    for restart in range(asked.restarts):
        for how in Random(asked.seed + restart).sample(arms, len(arms)):
            with Server(asked.target, how) as server:
                made.append(_arm(asked, prompts, server, restart))
    return DayArms(arms=tuple(made))


def _arm(asked: Day, prompts: Sequence[Prompt], server: Server, restart: int) -> DayArm:
    busiest = Segment(rate_per_s=max(one.rate_per_s for one in asked.segments), duration_s=WARM_S)
    start = server.counters()
    warm = _send(asked, prompts, server, [busiest], WARM_SEED)
    if not (answered := warm.outcome.count("whole")):
        error = EngineError(f"{server.target.name} answered no request before its day: {warm.errors}")
        raise EngineError(server.diagnosis(error))
    before = counters.settled(server.counters, start, answered)
    requests = _send(asked, prompts, server, asked.segments, asked.seed + restart)
    after = counters.settled(server.counters, before, requests.outcome.count("whole"))
    drafted = counters.delta(before, after).spec_decode
    label = server.speculation.label if server.speculation else BASELINE
    return DayArm(arm=label, restart=restart, requests=requests, spec_decode=drafted)


def _send(
    asked: Day, prompts: Sequence[Prompt], server: Server, segments: Sequence[Segment], seed: int
) -> OpenLoopRequests:
    load = OpenLoop(server.client.url, server.target.name, segments, prompts, asked.max_tokens, seed)
    load.start()
    return load.join()
