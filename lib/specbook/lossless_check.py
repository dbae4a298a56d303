"""The whole lossless check: three servers answer the same prompts, and what they said is compared."""

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from specbook import greedy, lossless, provenance, records, traffic
from specbook.config import ExecutionMode, Speculation, Target, Traffic
from specbook.estimate import Estimate
from specbook.greedy import Answer
from specbook.hardware import Hardware
from specbook.lossless import Divergence
from specbook.lossless_record import LosslessRecord
from specbook.plan import Plan
from specbook.pocket import checkers
from specbook.provenance import Provenance

OTHER: dict[ExecutionMode, ExecutionMode] = {"compiled": "eager", "eager": "compiled"}


def forks(
    model: str, prompt_ids: Sequence[str], a: Sequence[Answer], b: Sequence[Answer]
) -> tuple[Divergence, ...]:
    """Where two arms' answers part, with the target's margin at each."""
    found = lossless.divergences(prompt_ids, [x.token_ids for x in a], [x.token_ids for x in b])
    by_id = dict(zip(prompt_ids, a, strict=True))
    contexts = [
        (*by_id[fork.prompt_id].prompt_token_ids, *by_id[fork.prompt_id].token_ids[: fork.index])
        for fork in found
    ]
    gaps = greedy.margins(model, contexts, found)
    return tuple(
        fork.model_copy(update={"margin_logits": gap}) for fork, gap in zip(found, gaps, strict=True)
    )


def check(
    target: Target,
    speculation: Speculation,
    prompt_files: Sequence[Path],
    num_prompts: int,
    max_tokens: int,
    *,
    hardware: Hardware,
    concurrency: int = 1,
) -> LosslessRecord:
    """Run the three arms over the first prompts of each file, and compare; `records.append` is the caller's.

    Args:
        target: its execution mode is the baseline's and speculation's; the control takes the other one.
        speculation: how to draft.
        prompt_files: JSONL files, e.g. `Traffic.file()` of each domain.
        num_prompts: from each file, in file order.
        max_tokens: output cap.
        hardware: this machine.
        concurrency: requests in flight; above 1 an answer may also depend on what shared its batch.

    Raises:
        ConfigError: if prompts or models cannot be used.
        EngineError: if an engine crashes or does not answer.
    """
    started_at = datetime.now(UTC)
    rows = [row for file in prompt_files for row in _rows(file, num_prompts)]
    prompts = [row["prompt"] for row in rows]
    other = target.model_copy(update={"execution": OTHER[target.execution]})
    arms = {"baseline": (target, None), "speculation": (target, speculation), "control": (other, None)}
    done = {name: greedy.generate(*arm, prompts, max_tokens, concurrency) for name, arm in arms.items()}
    answered = {name: answers for name, (answers, _) in done.items()}
    digest = "+".join(provenance.file_sha256(file) for file in prompt_files)
    return LosslessRecord(
        schema_version=1, kind="measured", hardware=hardware, target=target, speculation=speculation,
        run_id=f"{started_at:%Y%m%dT%H%M%SZ}-lossless-{secrets.token_hex(2)}",
        started_at=started_at.isoformat(timespec="seconds"), control_execution=other.execution,
        provenance={name: _of(origin, digest) for name, (_, origin) in done.items()},
        max_tokens=max_tokens, concurrency=concurrency,
        accuracy={name: _accuracy(rows, answers) for name, answers in answered.items()},
        **_compared(target.model, tuple(row["id"] for row in rows), answered),
    )  # fmt: skip


def _of(origin: Provenance, prompts_sha256: str) -> Provenance:
    return origin.model_copy(update={"prompts_sha256": prompts_sha256})


def _compared(model: str, ids: tuple[str, ...], answered: Mapping[str, list[Answer]]) -> dict[str, Any]:
    base, fast, control = (answered[name] for name in ("baseline", "speculation", "control"))
    return {
        "prompt_ids": ids, "equality": _equality(base, fast), "control": _equality(base, control),
        "divergences": forks(model, ids, base, fast), "control_divergences": forks(model, ids, base, control),
    }  # fmt: skip


def _equality(a: Sequence[Answer], b: Sequence[Answer]) -> lossless.Equality:
    return lossless.compare([x.token_ids for x in a], [x.token_ids for x in b])


def _rows(file: Path, num_prompts: int) -> list[Mapping[str, Any]]:
    """The first rows of a prompt file, whole: `traffic.Prompt` leaves out what a checker needs."""
    known = {prompt.id for prompt in traffic.load_prompts(file)[:num_prompts]}
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip())
    return [row for row in rows if row["id"] in known]


def _accuracy(rows: Sequence[Mapping[str, Any]], answered: Sequence[Answer]) -> dict[str, Estimate]:
    judged = [(row, answer.text) for row, answer in zip(rows, answered, strict=True) if "check" in row]
    return lossless.accuracy([row for row, _ in judged], [text for _, text in judged], checkers.check)


def missing(plan: Plan, hardware: Hardware) -> list[tuple[Target, Speculation]]:
    """Checks that a plan asks for and this machine has not made with today's weights."""
    if plan.lossless is None:
        return []
    wanted = [
        (plan.target.model_copy(update={"dtype": dtype}), speculation)
        for dtype in plan.lossless.dtypes
        for speculation in plan.speculations((plan.lossless.num_speculative_tokens,))
    ]
    done = [r for r in records.load_lossless() if r.hardware.id == hardware.id]
    return [(t, s) for t, s in wanted if not any(_same(record, plan, t, s) for record in done)]


def _same(record: LosslessRecord, plan: Plan, target: Target, speculation: Speculation) -> bool:
    assert plan.lossless is not None
    return (
        (record.target, record.speculation, record.concurrency, record.max_tokens, len(record.prompt_ids))
        == (target, speculation, plan.lossless.concurrency, plan.max_tokens,
            plan.lossless.prompts_per_domain * len(plan.domains))
        and record.provenance["speculation"].weights_sha256 == provenance.weights_sha256(target, speculation)
    )  # fmt: skip


def measure_missing(plan: Plan, hardware: Hardware) -> list[LosslessRecord]:
    """Make the checks that are `missing`; each is on disk before the next starts. See `check` for errors."""
    made = []
    todo = missing(plan, hardware)
    # Three servers each: minutes in which a reader would else see nothing.
    for target, speculation in tqdm(
        todo, f"lossless checks of {plan.chapter}", leave=False, disable=not todo
    ):
        assert plan.lossless is not None
        files = [Traffic(domain=domain).file() for domain in plan.domains]
        made.append(
            check(
                target, speculation, files, plan.lossless.prompts_per_domain, plan.max_tokens,
                hardware=hardware, concurrency=plan.lossless.concurrency,
            )
        )  # fmt: skip
        records.append(made[-1])
    return made
