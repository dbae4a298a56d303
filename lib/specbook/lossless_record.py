"""The record of a lossless check; `records` puts it on disk beside the runs."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from specbook.config import ExecutionMode, Frozen, Speculation, Target
from specbook.estimate import Estimate
from specbook.hardware import Hardware
from specbook.lossless import Comparison, Divergence, Equality, against_control
from specbook.provenance import Provenance


class LosslessRecord(Frozen):
    """One lossless check: a baseline, the same with speculation, and the baseline in another execution
    mode.
    """

    record_type: Literal["lossless"] = "lossless"
    schema_version: Literal[1]
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    kind: Literal["measured", "simulated"]
    started_at: str
    """UTC, ISO 8601."""
    hardware: Hardware
    provenance: dict[str, Provenance]
    """By arm: `baseline`, `speculation`, `control`."""
    target: Target
    speculation: Speculation
    control_execution: ExecutionMode
    """Of the control; the baseline's and speculation's is the target's."""
    max_tokens: int = Field(ge=1)
    concurrency: int = Field(ge=1)
    prompt_ids: tuple[str, ...] = Field(min_length=1)
    equality: Equality
    """Speculation against the baseline."""
    control: Equality
    """The baseline in the other execution mode against the baseline."""
    divergences: tuple[Divergence, ...]
    control_divergences: tuple[Divergence, ...]
    accuracy: dict[str, dict[str, Estimate]]
    """Arm -> domain -> share of acceptable answers."""

    @model_validator(mode="after")
    def _counts_agree(self) -> "LosslessRecord":
        for equality, found in ((self.equality, self.divergences), (self.control, self.control_divergences)):
            if equality.n != len(self.prompt_ids) or equality.n - equality.equal != len(found):
                raise ValueError(
                    f"{len(found)} divergences contradict {equality.equal} equal of {equality.n}"
                )
        if set(self.provenance) != {"baseline", "speculation", "control"}:
            raise ValueError(f"provenance names the arms {sorted(self.provenance)}: one per arm is needed")
        if self.control_execution == self.target.execution:
            raise ValueError(
                f"the control ran {self.control_execution}, as the baseline did: it controls nothing"
            )
        return self

    @property
    def chapter(self) -> str:
        """The folder under `results/<hardware-id>/`."""
        return "lossless"

    def comparison(self) -> Comparison:
        """Speculation against the control, prompt by prompt."""
        return against_control(self.equality.diverged, self.control.diverged)


def fullest(checks: Iterable[LosslessRecord]) -> list[LosslessRecord]:
    """Of the checks of one target, precision and speculation, that with the most prompts, or the newest.

    A model that was trained again is another model: checks of its older weights do not count.

    Args:
        checks: oldest first.
    """
    best: dict[str, LosslessRecord] = {}
    for check in checks:
        name = f"{check.target.model} {check.target.dtype} {check.speculation!r}"
        held = best.get(name)
        if held is None or _weights(held) != _weights(check) or check.equality.n >= held.equality.n:
            best[name] = check
    return list(best.values())


def _weights(check: LosslessRecord) -> dict[str, str]:
    return check.provenance["speculation"].weights_sha256
