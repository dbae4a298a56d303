"""The record of a lossless check, and of the margins where its answers part; both lie beside the runs."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from specbook.config.schema import ExecutionMode, Frozen, Speculation, Target
from specbook.records.run import Hardware, Provenance, RunRecord, engine
from specbook.stats.equality import Divergence, Equality, excess_p_value
from specbook.stats.estimate import Estimate

FORKS = {"speculation": "divergences", "control": "control_divergences", "repeat": "repeat_divergences"}
"""Arm -> the field of `LosslessRecord` that says where it parts from the baseline."""
SAME = {"speculation": "equality", "control": "control", "repeat": "repeat"}
"""Arm -> the field that says how many of its answers are the baseline's."""


class LosslessRecord(Frozen):
    """One lossless check: a baseline, the same with speculation, and two controls without: the baseline in
    another execution mode, and the baseline started again.
    """

    chapter: ClassVar[str] = "lossless"
    """The folder under `results/<hardware-id>/`."""
    record_type: Literal["lossless"] = "lossless"
    schema_version: Literal[1]
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    kind: Literal["measured", "simulated"]
    started_at: str
    """UTC, ISO 8601."""
    hardware: Hardware
    provenance: dict[str, Provenance]
    """By arm: `baseline`, `speculation`, `control`, and `repeat` where there is one."""
    target: Target
    speculation: Speculation
    control_execution: ExecutionMode
    """Execution mode of the control; the other arms' is the target's."""
    max_tokens: int = Field(ge=1)
    concurrency: int = Field(ge=1)
    prompt_ids: tuple[str, ...] = Field(min_length=1)
    equality: Equality
    """Speculation against the baseline."""
    control: Equality
    """The baseline in the other execution mode against the baseline."""
    repeat: Equality | None = None
    """The baseline after another start of the server against the baseline; None in older checks."""
    divergences: tuple[Divergence, ...]
    control_divergences: tuple[Divergence, ...]
    repeat_divergences: tuple[Divergence, ...] = ()
    accuracy: dict[str, dict[str, Estimate]]
    """Arm -> domain -> share of acceptable answers."""

    @model_validator(mode="after")
    def _counts_agree(self) -> "LosslessRecord":
        held: dict[str, Equality | None] = {arm: getattr(self, field) for arm, field in SAME.items()}
        for arm, equality in held.items():
            n, parted = (equality.n, equality.n - equality.equal) if equality else (len(self.prompt_ids), 0)
            divergences = len(getattr(self, FORKS[arm]))
            if n != len(self.prompt_ids) or parted != divergences:
                raise ValueError(f"{divergences} divergences contradict {n - parted} equal of {n} ({arm})")
        arms = {"baseline", *(arm for arm, equality in held.items() if equality)}
        if set(self.provenance) != arms:
            raise ValueError(f"provenance names the arms {sorted(self.provenance)}: one per arm is needed")
        if self.control_execution == self.target.execution:
            raise ValueError(
                f"the control ran {self.control_execution}, as the baseline did: it controls nothing"
            )
        return self

    def p_value(self) -> float:
        """See `excess_p_value`: speculation against the control in the other mode, prompt by prompt."""
        return excess_p_value(self.equality.diverged, self.control.diverged)


class MarginsRecord(Frozen):
    """How nearly tied the two tokens were where answers of a check part. It is written after the check.

    The check's own baseline server rates both tokens before it stops, in the precision that it serves.
    """

    chapter: ClassVar[str] = "lossless"
    """The folder under `results/<hardware-id>/`."""
    record_type: Literal["margins"] = "margins"
    schema_version: Literal[1]
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    kind: Literal["measured", "simulated"]
    check: str
    """The `run_id` of the check."""
    hardware: Hardware
    margins_logits: dict[str, dict[str, float]]
    """Arm -> prompt -> `Divergence.margin_logits`; of many divergences only some are rated."""


def with_margins(checks: Iterable[LosslessRecord], margins: Iterable[MarginsRecord]) -> list[LosslessRecord]:
    """The checks, each divergence with its margin where one was written."""
    by_check = {record.check: record.margins_logits for record in margins}
    return [_rated(check, by_check[check.run_id]) if check.run_id in by_check else check for check in checks]


def _rated(check: LosslessRecord, margins: dict[str, dict[str, float]]) -> LosslessRecord:
    def rated(arm: str, fork: Divergence) -> Divergence:
        return fork.model_copy(update={"margin_logits": margins[arm].get(fork.prompt_id)})

    fields = {FORKS[arm]: tuple(rated(arm, fork) for fork in getattr(check, FORKS[arm])) for arm in margins}
    return check.model_copy(update=fields)


def beside(checks: Iterable[LosslessRecord], runs: Iterable[RunRecord]) -> list[LosslessRecord]:
    """Checks of the engine and the very weights that these runs with speculation had, on some of their
    prompts: those of a model that was trained since, or of other traffic, say nothing about them. Tokens are
    compared and no times, so a check of another machine counts; a table of checks names it.
    """
    runs = list(runs)
    shown = [(run.kind, made_by(run.provenance)) for run in runs if run.point.speculation]
    prompts = {run.provenance.prompts_sha256 for run in runs}
    return [
        check
        for check in checks
        if (check.kind, _made_by(check)) in shown
        and prompts.intersection(check.provenance["speculation"].prompts_sha256.split("+"))
    ]


def made_by(origin: Provenance) -> tuple[str, dict[str, str]]:
    """The engine's build and environment, and the weights of target and draft."""
    return engine(origin), origin.weights_sha256


def fullest(checks: Iterable[LosslessRecord]) -> list[LosslessRecord]:
    """Checks with the most prompts, or the newest: one for each target, precision and speculation.

    A model that was trained again is another model, an upgraded engine another engine: older checks do not
    count. They are given oldest first.
    """
    best: dict[str, LosslessRecord] = {}
    for check in checks:
        name = f"{check.target.model} {check.target.dtype} {check.speculation!r}"
        held = best.get(name)
        if held is None or _made_by(held) != _made_by(check) or check.equality.n >= held.equality.n:
            best[name] = check
    return list(best.values())


def _made_by(check: LosslessRecord) -> tuple[str, dict[str, str]]:
    return made_by(check.provenance["speculation"])
