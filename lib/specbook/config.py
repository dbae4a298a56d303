"""What to measure: the words are vLLM's, and a misspelt one is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specbook import paths

Domain = Literal["code", "chat", "math", "json"]
ExecutionMode = Literal["compiled", "eager"]


class Frozen(BaseModel):
    """Base of every configuration and record: immutable, and no field that is not declared."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )


def resolve_model(model: str) -> str:
    """An absolute path when `model` is a folder of this project, else `model` as given (a path or hub id)."""
    local = paths.root() / model
    return str(local) if local.is_dir() else model


class Target(Frozen):
    """The model whose output must not change: weights, precision, and how its server is sized."""

    name: str
    """Short name used in tables, figures and file names."""
    model: str
    """Folder, relative to the project, or hub id."""
    revision: str | None = None
    """Hub revision; None for a local folder."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    quantization: str | None = None
    tensor_parallel_size: int = Field(default=1, ge=1)
    max_model_len: int = Field(ge=16)
    """Longest prompt + output, in tokens."""
    max_num_seqs: int = Field(default=32, ge=1)
    """Most sequences in one batch."""
    execution: ExecutionMode = "compiled"
    """`eager` passes --enforce-eager: no torch.compile, no CUDA graphs."""
    extra_args: tuple[str, ...] = ()
    """Further `vllm serve` arguments, passed on unchanged."""


class Speculation(Frozen):
    """How draft tokens are proposed. Fields are vLLM's `speculative_config` keys."""

    method: Literal["ngram", "draft_model", "eagle3", "suffix"]
    num_speculative_tokens: int = Field(ge=1, le=32)
    """Draft tokens per verification step, K."""
    model: str | None = None
    """Folder or hub id of the draft; None for ngram and suffix."""
    revision: str | None = None
    parallel_drafting: bool = False
    """One forward pass drafts all K tokens (P-EAGLE)."""
    prompt_lookup_min: int | None = Field(default=None, ge=1)
    prompt_lookup_max: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _draft_where_needed(self) -> "Speculation":
        if self.method in ("draft_model", "eagle3") and self.model is None:
            raise ValueError(f"method {self.method!r} needs `model`: the folder or hub id of the draft")
        return self

    @property
    def label(self) -> str:
        """Name for tables and figures, e.g. `EAGLE-3 K=5`."""
        name = {"eagle3": "EAGLE-3", "draft_model": "draft model"}.get(self.method, self.method)
        return f"{'P-EAGLE' if self.parallel_drafting else name} K={self.num_speculative_tokens}"

    def engine_config(self) -> dict[str, Any]:
        """The `speculative_config` object: only what is set, the draft's path made absolute."""
        config = self.model_dump(exclude_none=True, exclude_defaults=True)
        if self.model is not None:
            config["model"] = resolve_model(self.model)
        return config


class Traffic(Frozen):
    """Which prompts are sent, and how the answers are sampled."""

    domain: Domain | str
    """A pocket domain, or any name when `prompts` is given."""
    prompts: str | None = None
    """JSONL of `{"id", "prompt", ...}`, relative to the project; None for the domain's held-out prompts."""
    max_tokens: int = Field(default=128, ge=1)
    """Output cap, in tokens; answers stop by themselves before it."""
    temperature: float = Field(default=0.0, ge=0.0)
    seed: int = 0
    """Shuffles the prompts; the same in every arm."""

    def file(self) -> Path:
        """The prompts' JSONL."""
        return paths.root() / (self.prompts or f"models/heldout/{self.domain}.jsonl")


class Load(Frozen):
    """How requests arrive: a closed loop of `concurrency`, or Poisson arrivals at `request_rate_per_s`."""

    concurrency: int | None = Field(default=None, ge=1)
    request_rate_per_s: float | None = Field(default=None, gt=0)
    num_requests: int = Field(ge=1)
    num_warmups: int = Field(ge=0)

    @model_validator(mode="after")
    def _one_kind(self) -> "Load":
        if (self.concurrency is None) == (self.request_rate_per_s is None):
            raise ValueError(
                "give `concurrency` (closed loop) or `request_rate_per_s` (Poisson), and not both"
            )
        return self

    @property
    def label(self) -> str:
        """Name for tables and figures."""
        if self.concurrency is not None:
            return f"batch {self.concurrency}"
        return f"Poisson {self.request_rate_per_s:g}/s"


class Point(Frozen):
    """One thing to measure: the same point is never measured twice on the same machine and weights."""

    chapter: str
    target: Target
    speculation: Speculation | None
    traffic: Traffic
    load: Load
    restart: int = Field(ge=0)
    """Which start of the server, from 0: repeats that share nothing but the configuration."""

    @property
    def arm(self) -> str:
        """What is compared: `baseline (eager)`, `EAGLE-3 K=5 (compiled)`."""
        return f"{self.speculation.label if self.speculation else 'baseline'} ({self.target.execution})"

    @property
    def key(self) -> str:
        """16 hex digits that name this point: the digest of its whole configuration, chapter aside."""
        body = self.model_dump(mode="json", exclude={"chapter"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
