"""Noise in the target's router: drafts accepted, answers that pass, and experts touched, at one strength."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from specbook.bench import answer_checkers, greedy
from specbook.bench.experiments.experts_touched import count
from specbook.bench.experiments.registry import register
from specbook.bench.greedy import Answer
from specbook.config import prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Frozen, Name, Speculation, Target, Traffic, resolve_model
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import ConfigError
from specbook.records.moe_results import NoisyDomain, NoisyRouter
from specbook.records.run import SpecDecodeCounters
from specbook.stats import wilson
from specbook.stats.estimate import Estimate


class Asked(Frozen):
    """One server, and what it is asked."""

    target: Target
    router_noise: float = Field(ge=0.0, allow_inf_nan=False)
    """The target's; see `Target`."""
    speculation: Speculation
    head_noise: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    """What the head was trained on with, 0 to be compared with; None: it is the one that is served."""
    domains: tuple[Name, ...] = Field(min_length=1)
    prompts_per_domain: int = Field(ge=1)
    max_tokens: int = Field(ge=1)


@register("router_noise", Asked, NoisyRouter)
def run(asked: Asked) -> NoisyRouter:
    """Answer prompt after prompt under noise, and count drafts, right answers and experts.

    Raises:
        ConfigError: if the target, the head or the plugin cannot be used.
        EngineError: if the server crashes or does not answer.
    """
    from specbook.bench import moe_routing

    target = asked.target.model_copy(update={"router_noise": asked.router_noise})
    told = {domain: _prompts(asked, domain) for domain in asked.domains}
    with Server(target, asked.speculation) as server:
        got = {domain: [_one(server, prompt, asked.max_tokens) for prompt in told[domain]] for domain in told}
    model = moe_routing.load(Path(resolve_model(target.model)), asked.router_noise)
    tokens = asked.speculation.num_speculative_tokens + 1
    found = []
    for domain, pairs in got.items():
        answers = [answer for answer, _ in pairs]
        streams = [moe_routing.chosen(model, a.prompt_token_ids, a.token_ids) for a in answers if a.token_ids]
        touched = count(streams, 1, tokens, unit="prompts")
        found.append(_domain(domain, told[domain], answers, [c for _, c in pairs], touched))
    return NoisyRouter(
        router_noise=asked.router_noise, head_noise=asked.head_noise,
        num_speculative_tokens=asked.speculation.num_speculative_tokens, domains=tuple(found),
    )  # fmt: skip


def _prompts(asked: Asked, domain: str) -> list[Prompt]:
    found = prompt_files.of(Traffic(domain=domain))
    if not all(answer_checkers.knows(one.row) for one in found):
        raise ConfigError(f"prompts of {domain!r} do not say how to judge an answer: leave the domain out")
    return found[: asked.prompts_per_domain]


def _one(server: Server, prompt: Prompt, max_tokens: int) -> tuple[Answer, SpecDecodeCounters]:
    """An answer that shares its steps with no other, and what was drafted for it."""
    before = server.counters()
    (answer,) = greedy.answers(server, [prompt.turns()], max_tokens)
    return answer, counters.delta(before, counters.settled(server.counters, before, 1)).spec_decode


def _domain(
    domain: str,
    asked: Sequence[Prompt],
    answers: Sequence[Answer],
    drafted: Sequence[SpecDecodeCounters],
    touched: Estimate | None,
) -> NoisyDomain:
    right = sum(answer_checkers.check(p.row, a.text) for p, a in zip(asked, answers, strict=True))
    stuck = sum(answer_checkers.loops(answer.token_ids) for answer in answers)
    return NoisyDomain(
        domain=domain, counters=tuple(drafted), passed=wilson(right, len(answers)),
        looped=wilson(stuck, len(answers)), experts=touched,
    )  # fmt: skip
