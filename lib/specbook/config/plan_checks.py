"""What would go wrong, or count double, once a sweep's points are measured: refused when the plan is read."""

import os.path
from typing import get_args

from specbook import paths
from specbook.config import prompt_files
from specbook.config.plan import Plan
from specbook.config.schema import Domain, Traffic
from specbook.errors import ConfigError
from specbook.suggestions import near


def check(plan: Plan) -> None:
    """Raise ConfigError, or pydantic's ValidationError, if a point of the plan could not be measured."""
    _loads(plan)
    for traffic in plan.traffic():
        _prompts(plan, traffic)
    keys = [point.key for point in plan.points()]
    if len(set(keys)) < len(keys):
        raise ConfigError(f"plan of {plan.chapter}: a list names one value twice: name it once")
    if plan.lossless is not None:
        plan.speculations((plan.lossless.num_speculative_tokens,))


def _loads(plan: Plan) -> None:
    missing = [c for c in plan.concurrency if c not in plan.num_requests]
    if missing:
        raise ConfigError(
            f"plan of {plan.chapter}: num_requests has no entry for concurrency {missing}: add it"
        )
    most = plan.target.max_num_seqs
    loads = [*plan.concurrency, *([plan.lossless.concurrency] if plan.lossless else [])]
    if too_many := sorted({c for c in loads if c > most}):
        raise ConfigError(
            f"plan of {plan.chapter}: concurrency {too_many} exceeds max_num_seqs {most} of the target: the "
            "rest would queue and be no part of the batch. Raise max_num_seqs, or lower concurrency"
        )
    if plan.max_tokens >= plan.target.max_model_len:
        raise ConfigError(
            f"plan of {plan.chapter}: max_tokens {plan.max_tokens} leaves no room for a prompt in "
            f"max_model_len {plan.target.max_model_len} of the target: lower the one, or raise the other"
        )


def _prompts(plan: Plan, traffic: Traffic) -> None:
    file, known, whose = traffic.file(), get_args(Domain), f"plan of {plan.chapter}:"
    if traffic.prompts is not None:
        _own_prompts(plan, traffic)
    elif traffic.domain not in known and not os.path.isfile(file):
        raise ConfigError(
            f"{whose} no domain {traffic.domain!r}{near(traffic.domain, known)}. "
            "To ask prompts of your own, give their file as `prompts`"
        )
    elif not os.path.isfile(file):
        raise ConfigError(
            f"{whose} no prompts of domain {traffic.domain!r} yet: {paths.portable(str(file))} "
            "is not there. Leave the domain out, or give `prompts`, a JSONL file of your own"
        )


def _own_prompts(plan: Plan, traffic: Traffic) -> None:
    """A batch that holds one prompt several times says little of a batch of traffic."""
    distinct, batch = len(prompt_files.of(traffic)), max(plan.concurrency, default=1)
    if distinct < batch:
        raise ConfigError(
            f"plan of {plan.chapter}: {plan.prompts} has {distinct} distinct prompts of {traffic.domain!r}, "
            f"and a batch of {batch} would hold some twice: give at least {batch}, or lower `concurrency`"
        )
