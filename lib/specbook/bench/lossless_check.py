"""The whole lossless check: four servers answer the same prompts, and what they said is compared."""

import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from tqdm.auto import tqdm

from specbook import paths, records
from specbook.bench import greedy, provenance
from specbook.bench.greedy import Answer
from specbook.config import Plan, prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import ExecutionMode, Speculation, Target, Traffic
from specbook.engine.server import Server
from specbook.records.lossless import FORKS, SAME, LosslessRecord, MarginsRecord, made_by
from specbook.records.run import Hardware, Provenance
from specbook.stats import equality
from specbook.stats.equality import Divergence

OTHER: dict[ExecutionMode, ExecutionMode] = {"compiled": "eager", "eager": "compiled"}
MARGINS_PER_ARM = 64
MARGINS_LIMIT_S = 120.0
"""Seconds for all margins of a check. The rest stays unrated, and the page says how many were rated."""


def check(
    target: Target, speculation: Speculation, traffic: Sequence[Traffic], num_prompts: int, max_tokens: int,
    *, hardware: Hardware, concurrency: int = 1,
) -> Iterator[LosslessRecord | MarginsRecord]:  # fmt: skip
    """Run the four arms over the first prompts of each domain, and compare; `records.append` is the caller's.

    Args:
        target: its execution mode is that of all arms but the control, which takes the other one.
        traffic: one per domain.
        num_prompts: of each, in file order.
        concurrency: requests in flight; above 1 an answer may also depend on what shared its batch.

    Yields:
        The check; then, if answers part, the margins. The baseline's server is the last one and runs between
        the two: it rates the tokens where the others parted from it.

    Raises:
        ConfigError: if prompts or models cannot be used.
        EngineError: if an engine crashes or does not answer.
    """
    began, asked = datetime.now(UTC), _asked(traffic, num_prompts)
    turns = [prompt.turns() for prompt in asked]
    answered: dict[str, list[Answer]] = {}
    origins: dict[str, Provenance] = {}
    other = target.model_copy(update={"execution": OTHER[target.execution]})
    arms = {"repeat": (target, None), "speculation": (target, speculation), "control": (other, None)}
    # The baseline's comes last: it rates what the others said.
    for name, arm in {**arms, "baseline": (target, None)}.items():
        with Server(*arm) as server:
            answered[name] = greedy.answers(server, turns, max_tokens, concurrency)
            origins[name] = _origin(server, _digest(traffic))
            if name == "baseline":
                made = LosslessRecord(
                    run_id=f"{began:%Y%m%dT%H%M%SZ}-lossless-{secrets.token_hex(2)}", schema_version=1,
                    kind="measured", started_at=began.isoformat(timespec="seconds"),
                    hardware=hardware, target=target, speculation=speculation,
                    control_execution=other.execution, max_tokens=max_tokens,
                    concurrency=concurrency, provenance=origins, **_compared(asked, answered),
                )  # fmt: skip
                yield made
                yield from _margins(server, made, answered[name])


def _origin(server: Server, prompts_sha256: str) -> Provenance:
    """Where a server's answers to these prompts come from."""
    command = tuple(map(paths.portable, server.command))
    origin = provenance.today(server.target, server.speculation)
    return origin.model_copy(update={"server_command": command, "prompts_sha256": prompts_sha256})


def _compared(asked: Sequence[Prompt], answered: Mapping[str, list[Answer]]) -> dict[str, Any]:
    """The fields of `LosslessRecord` that follow from the answers."""
    ids = tuple(prompt.id for prompt in asked)
    tokens = {name: [answer.token_ids for answer in answers] for name, answers in answered.items()}
    base = tokens.pop("baseline")
    parted = {FORKS[name]: tuple(equality.divergences(ids, base, arm)) for name, arm in tokens.items()}
    same = {SAME[name]: equality.compare(base, arm) for name, arm in tokens.items()}
    accuracy = {}
    for name, answers in answered.items():
        judged = [(p.row, a.text) for p, a in zip(asked, answers, strict=True) if greedy.knows(p.row)]
        rows, texts = [row for row, _ in judged], [text for _, text in judged]
        accuracy[name] = equality.accuracy(rows, texts, greedy.check)
    return {"prompt_ids": ids, "accuracy": accuracy, **same, **parted}


def _margins(server: Server, made: LosslessRecord, base: Sequence[Answer]) -> Iterator[MarginsRecord]:
    """What the baseline's server says of the tokens where others parted from it: a bounded number of them."""
    by_id = dict(zip(made.prompt_ids, base, strict=True))
    deadline = time.monotonic() + MARGINS_LIMIT_S
    margins: dict[str, dict[str, float]] = {}
    for arm, field in FORKS.items():
        for fork in _spread(getattr(made, field)):
            if fork.token_a is None or fork.token_b is None or time.monotonic() > deadline:
                continue
            answer = by_id[fork.prompt_id]
            context = (*answer.prompt_token_ids, *answer.token_ids[: fork.index])
            gap = greedy.margin_logits(server, context, fork.token_a, fork.token_b)
            margins.setdefault(arm, {})[fork.prompt_id] = gap
    if margins:
        yield MarginsRecord(
            schema_version=1, run_id=f"{made.run_id}-margins", kind=made.kind, check=made.run_id,
            hardware=made.hardware, margins_logits=margins,
        )  # fmt: skip


def _spread(divergences: Sequence[Divergence]) -> Sequence[Divergence]:
    """At most MARGINS_PER_ARM of them, evenly spaced: prompts lie domain by domain."""
    return divergences[:: math.ceil(len(divergences) / MARGINS_PER_ARM) or 1]


def _asked(traffic: Sequence[Traffic], num_prompts: int) -> list[Prompt]:
    return [prompt for kind in traffic for prompt in prompt_files.for_traffic(kind)[:num_prompts]]


def _digest(traffic: Sequence[Traffic]) -> str:
    return "+".join(map(provenance.prompts_sha256, traffic))


def missing(plan: Plan, hardware: Hardware) -> list[tuple[Target, Speculation]]:
    """Checks that a plan asks for and this machine has not made with today's weights and engine."""
    if plan.lossless is None:
        return []
    wanted = [
        (plan.target.model_copy(update={"dtype": dtype}), speculation)
        for dtype in plan.lossless.dtypes
        for speculation in plan.speculations((plan.lossless.num_speculative_tokens,))
    ]
    done = records.load_lossless(hardware.id)
    return [(t, s) for t, s in wanted if not any(_same(record, plan, t, s) for record in done)]


def _same(record: LosslessRecord, plan: Plan, target: Target, speculation: Speculation) -> bool:
    asked = _asked(plan.traffic(), plan.lossless.prompts_per_domain)
    return (
        (record.target, record.speculation, record.concurrency, record.max_tokens)
        == (target, speculation, plan.lossless.concurrency, plan.max_tokens)
        and record.prompt_ids == tuple(prompt.id for prompt in asked)
        and record.provenance["speculation"].prompts_sha256 == _digest(plan.traffic())
        and made_by(record.provenance["speculation"]) == made_by(provenance.today(target, speculation))
    )  # fmt: skip


def measure_missing(plan: Plan, hardware: Hardware) -> None:
    """Make the checks that are `missing`; each is on disk before its margins. See `check` for errors."""
    todo, what = missing(plan, hardware), f"lossless checks of {plan.chapter}"
    # Four servers each: minutes in which a reader would else see nothing.
    for target, speculation in tqdm(todo, what, leave=False, disable=not todo):
        checked = check(
            target, speculation, plan.traffic(), plan.lossless.prompts_per_domain, plan.max_tokens,
            hardware=hardware, concurrency=plan.lossless.concurrency,
        )  # fmt: skip
        with closing(checked):  # a server runs in it
            for record in checked:
                records.append(record)
