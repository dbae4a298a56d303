"""A mixture's router: experts that a step touches, and drafts, answers and experts under noise.

Experts are counted by the model's own router: over the answers that baselines' records hold, and over those
of a server whose router is disturbed.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from specbook import records
from specbook.bench import greedy, provenance
from specbook.bench.experiments import register
from specbook.bench.greedy import Answer
from specbook.bench.hardware import detect
from specbook.config import prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Frozen, Name, Speculation, Target, Traffic, resolve_model
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import ConfigError
from specbook.records.experiment_results import ExpertsTouched, NoisyDomain, NoisyRouter, StepExperts
from specbook.records.run import SpecDecodeCounters
from specbook.stats import experts, ratios, wilson
from specbook.stats.estimate import Estimate


class Steps(Frozen):
    """Which steps to count."""

    target: Target
    domains: tuple[Name, ...] = Field(min_length=1)
    num_speculative_tokens: tuple[int, ...] = Field(min_length=1)
    """0 is always counted too: a decode step."""
    concurrency: tuple[int, ...] = Field(min_length=1)
    answers_per_domain: int = Field(default=64, ge=1)


@register("experts_touched", Steps, ExpertsTouched)
def experts_touched(asked: Steps) -> ExpertsTouched:
    """Route recorded answers again, and count.

    Raises:
        ConfigError: if no baseline of this target and these weights was recorded on this machine.
    """
    from transformers import AutoTokenizer

    from specbook.bench import moe_routing

    folder = Path(resolve_model(asked.target.model))
    streams = {domain: recorded(asked, domain) for domain in asked.domains}
    model, tokenizer = moe_routing.load(folder), AutoTokenizer.from_pretrained(folder)
    encoded = {name: [encode(tokenizer, *both) for both in answers] for name, answers in streams.items()}
    chosen = {
        name: [moe_routing.chosen(model, *both) for both in answers if both[1]]
        for name, answers in encoded.items()
    }
    every = [both for answers in encoded.values() for both in answers]
    return ExpertsTouched(
        num_experts=model.config.num_experts, num_experts_per_token=model.config.num_experts_per_tok,
        context=round(np.mean([len(prompt) + len(answer) / 2 for prompt, answer in every])),
        logit_spread=np.mean(
            [moe_routing.logit_spread(model, [*prompt, *answer]) for (prompt, answer), *_ in encoded.values()]
        ),
        touched=tuple(_rows(asked, chosen)),
    )  # fmt: skip


def recorded(asked: Steps, domain: str) -> list[tuple[list[dict], str]]:
    """What was asked, turn by turn, and the answer, each prompt once: of this machine's baselines.

    Raises:
        ConfigError: if there is none.
    """
    weights = provenance.model_sha256(asked.target.model, asked.target.revision)
    answers: dict[str, tuple[list[dict], str]] = {}
    for run in records.load(detect().id):
        point, origin = run.point, run.provenance
        if (
            run.status == "ok"
            and point.speculation is None
            and point.traffic.domain == domain
            and point.target.model == asked.target.model
            and not point.target.router_noise
            and origin.weights_sha256.get("target") == weights
            and origin.prompts_sha256 == provenance.prompts_sha256(point.traffic)
        ):
            turns = {one.id: one.turns() for one in prompt_files.for_traffic(point.traffic)}
            rows = records.requests(run)
            rows = rows[rows["error"].isna() | (rows["error"] == "")]
            for name, text in rows[["prompt_id", "text"]].itertuples(index=False):
                answers.setdefault(name, (turns[name], text))
    if not answers:
        raise ConfigError(
            f"no recorded answers of {asked.target.name} to {domain!r} with today's weights and prompts on "
            "this machine: measure the chapter's sweep first"
        )
    return list(answers.values())[: asked.answers_per_domain]


def encode(tokenizer, turns: Sequence[dict], text: str) -> tuple[list[int], list[int]]:
    """Token ids of a prompt, through the chat template, and of its answer."""
    prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer(part, add_special_tokens=False)["input_ids"] for part in (prompt, text))


def _rows(asked: Steps, chosen: dict[str, list[NDArray[np.bool_]]]) -> Iterator[StepExperts]:
    depths = sorted({0, *asked.num_speculative_tokens})
    for domain, batch, k in itertools.product(asked.domains, asked.concurrency, depths):
        estimate = count(chosen[domain], batch, k + 1)
        if estimate is not None:
            yield StepExperts(domain=domain, concurrency=batch, num_speculative_tokens=k, experts=estimate)


def count(
    streams: Sequence[NDArray[np.bool_]], batch: int, tokens: int, unit: str = "answers"
) -> Estimate | None:
    """Distinct experts of a layer that a step over `tokens` tokens of each of `batch` answers touches.

    Args:
        streams: [tokens, layers, experts] of each answer; each counts once, however long it is.
        batch: answers that go on together, see `experts.together`.
        tokens: of each answer in one step; answers that are shorter are left out.
        unit: what n counts.

    Returns:
        The mean over layers and choices of answers, and its jackknife interval over them; None where too few
        answers are long enough.
    """
    touching = [experts.shares(stream, tokens) for stream in streams if len(stream) >= tokens]
    n = len(touching)
    if n <= batch:
        return None
    whole = experts.together(np.stack(touching), batch)
    without = [experts.together(np.stack(touching[:i] + touching[i + 1 :]), batch) for i in range(n)]
    return ratios.ratio_of_sums_ci(n * whole - (n - 1) * np.array(without), np.ones(n), unit_of_n=unit)


class Noise(Frozen):
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


@register("router_noise", Noise, NoisyRouter)
def router_noise(asked: Noise) -> NoisyRouter:
    """Answer prompt after prompt under noise, and count drafts, right answers and experts.

    Raises:
        ConfigError: if the target, the head or the plugin cannot be used.
        EngineError: if the server crashes or does not answer.
    """
    from specbook.bench import moe_routing

    target = asked.target.model_copy(update={"router_noise": asked.router_noise})
    prompts = {domain: _prompts(asked, domain) for domain in asked.domains}
    with Server(target, asked.speculation) as server:
        answered = {
            domain: [_answer(server, prompt, asked.max_tokens) for prompt in own]
            for domain, own in prompts.items()
        }
    model = moe_routing.load(Path(resolve_model(target.model)), asked.router_noise)
    depth = asked.speculation.num_speculative_tokens

    def domain(name: str) -> NoisyDomain:
        answers, drafted = zip(*answered[name], strict=True)
        streams = [moe_routing.chosen(model, a.prompt_token_ids, a.token_ids) for a in answers if a.token_ids]
        right = sum(greedy.check(p.row, a.text) for p, a in zip(prompts[name], answers, strict=True))
        looped = sum(greedy.loops(answer.token_ids) for answer in answers)
        return NoisyDomain(
            domain=name, counters=drafted, passed=wilson(right, len(answers)),
            looped=wilson(looped, len(answers)), experts=count(streams, 1, depth + 1, unit="prompts"),
        )  # fmt: skip

    return NoisyRouter(
        router_noise=asked.router_noise, head_noise=asked.head_noise, num_speculative_tokens=depth,
        domains=tuple(map(domain, prompts)),
    )  # fmt: skip


def _prompts(asked: Noise, domain: str) -> list[Prompt]:
    prompts = prompt_files.for_traffic(Traffic(domain=domain))
    if not all(greedy.knows(one.row) for one in prompts):
        raise ConfigError(f"prompts of {domain!r} do not say how to judge an answer: leave the domain out")
    return prompts[: asked.prompts_per_domain]


def _answer(server: Server, prompt: Prompt, max_tokens: int) -> tuple[Answer, SpecDecodeCounters]:
    """An answer that shares its steps with no other, and what was drafted for it."""
    before = server.counters()
    (answer,) = greedy.answers(server, [prompt.turns()], max_tokens)
    return answer, counters.delta(before, counters.settled(server.counters, before, 1)).spec_decode
