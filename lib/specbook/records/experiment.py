"""The record of an experiment that is no sweep of a server: one envelope, and a result in its own words."""

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from specbook.config.chapter import Experiment
from specbook.config.schema import Frozen
from specbook.records.origin import Hardware, Provenance
from specbook.records.run import Kind


class ExperimentRecord(Frozen):
    """One experiment, with all that is needed to believe it and to run it again."""

    record_type: Literal["experiment"] = "experiment"
    schema_version: Literal[1] = 1
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    chapter: str
    """The folder under `results/<hardware-id>/`."""
    kind: Kind
    status: Literal["ok", "failed"]
    reason: str | None = None
    """Why it failed; None when it did not."""
    started_at: str
    """UTC, ISO 8601."""
    experiment: Experiment
    hardware: Hardware
    provenance: Provenance
    result: dict[str, JsonValue] | None = None
    """Fields of the model that the experiment is registered with; None when it failed."""

    @model_validator(mode="after")
    def _status_says_what_exists(self) -> Self:
        if (self.status == "ok") != (self.result is not None) or (self.status == "failed") != bool(
            self.reason
        ):
            raise ValueError("a good record has a result and no reason, a failed one a reason and no result")
        return self

    @property
    def title(self) -> str:
        """What was measured, for people."""
        return self.experiment.title
