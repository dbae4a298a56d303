"""What to measure: the words are vLLM's, and a misspelt one is refused."""

import hashlib
import json
import os.path
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from specbook import paths
from specbook.config import draft_schedule, methods

Domain = Literal["code", "chat", "math", "json", "prose"]
ExecutionMode = Literal["compiled", "eager"]
KEY_VERSION = "v2"
"""Goes up when the default of a field in `Point` changes: a key leaves out what has its default."""
MOST_REQUESTS = 1_000_000
"""In one window: more is a mistake, and would be held in memory."""
ENGINE_SHARE = 0.92
"""Share of a device's memory that vLLM 0.32 takes unless --gpu-memory-utilization says another."""
REQUESTS_A_SLOT = 8
"""Fewest that a closed loop's window holds: with fewer, most of it is the first wave and the drain."""
MARKUP = re.compile(r"[<>&`|\\\x00-\x1f]")


def _plain(text: str) -> str:
    if match := MARKUP.search(text):
        raise ValueError(f"a name is written into pages and tables, and may not hold {match.group()!r}")
    return text


Name = Annotated[str, Field(min_length=1), AfterValidator(_plain)]
"""Text from a plan that pages show."""


class Frozen(BaseModel):
    """Base of every configuration and record: immutable, and no field that is not declared."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )


def digest(body: Any, digits: int) -> str:
    """The first hex digits of the SHA-256 of `body` as JSON, its keys sorted."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:digits]


def resolve_model(model: str) -> str:
    """An absolute path when `model` is a folder of this project, else `model` as given (a path or hub id)."""
    local = paths.at(model)
    return str(local) if os.path.isdir(local) else model


class Target(Frozen):
    """The model whose output must not change: weights, precision, and how its server is sized."""

    name: Name
    """Short name used in tables, figures and file names."""
    model: Name
    """Folder, relative to the project, or hub id."""
    engine: str = "vllm"
    """What serves it: a folder of `specbook.engine`."""
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
    load_format: Literal["auto", "dummy"] = "auto"
    """`dummy`: random weights of the model's shape and its draft's. Steps take as long, answers are noise."""
    extra_args: tuple[str, ...] = ()
    """Further arguments of the engine's server, passed on unchanged."""
    router_noise: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Standard deviation of the noise on the logits of a mixture's routers; 0: the model as it is."""

    @property
    def memory_share(self) -> float:
        """Share of an accelerator's memory that its server takes."""
        given = dict(pairwise(self.extra_args)).get("--gpu-memory-utilization")
        return float(given) if given else ENGINE_SHARE


class Draft(Frozen):
    """One way to propose tokens, before K is chosen. Fields are vLLM's `speculative_config` keys.

    Beside the declared fields it holds what `specbook.config.methods` lists as keys of its method.
    """

    model_config = ConfigDict(extra="allow")

    method: str
    """Name of a file in `specbook.config.methods`; P-EAGLE is `eagle3` with `parallel_drafting`."""
    model: str | None = None
    """Folder or hub id of the draft; None for ngram and suffix."""
    revision: str | None = None
    parallel_drafting: bool = False
    """One forward pass drafts all K tokens (P-EAGLE)."""
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None
    synthetic_acceptance_rates: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    """Joint acceptance of each of K positions, played in place of the draft's own: answers are noise."""
    num_speculative_tokens_per_batch_size: draft_schedule.Rows | None = None
    """K by the requests in a step; `num_speculative_tokens` is then the largest (`config.draft_schedule`)."""

    @model_validator(mode="after")
    def _joint(self) -> "Draft":
        rates = self.synthetic_acceptance_rates
        if rates is not None and list(rates) != sorted(rates, reverse=True):
            raise ValueError(
                f"synthetic_acceptance_rates {list(rates)} rise: each is of a position and all before it"
            )
        return self

    @model_validator(mode="after")
    def _keys_of_its_method(self) -> "Draft":
        settings = self.model_dump(
            exclude_none=True, exclude_defaults=True, exclude={*methods.OF_EVERY_METHOD}
        )
        if problem := self.drafting.problem(settings):
            raise ValueError(problem)
        return self

    @property
    def drafting(self) -> type[methods.Method]:
        """The registered method."""
        return methods.by_name(self.method, self.parallel_drafting)


class Speculation(Draft):
    """How draft tokens are proposed."""

    num_speculative_tokens: int = Field(ge=1, le=32)
    """Draft tokens per verification step, K."""

    @model_validator(mode="after")
    def _one_rate_each(self) -> "Speculation":
        rates, k = self.synthetic_acceptance_rates, self.num_speculative_tokens
        if rates is not None and len(rates) != k:
            raise ValueError(f"synthetic_acceptance_rates has {len(rates)} positions, and K is {k}: give {k}")
        return self

    @model_validator(mode="after")
    def _obeyed_schedule(self) -> "Speculation":
        rows, k = self.num_speculative_tokens_per_batch_size, self.num_speculative_tokens
        if rows is not None and (problem := draft_schedule.problem(rows, k, self.drafting.varying_k)):
            raise ValueError(f"num_speculative_tokens_per_batch_size: {problem}")
        return self

    @property
    def label(self) -> str:
        """Name for tables and figures: `EAGLE-3 K=5`; `EAGLE-3 K=5 at 3.21` where acceptance is played."""
        by_batch = self.num_speculative_tokens_per_batch_size
        drafted = draft_schedule.label(by_batch) if by_batch else f"K={self.num_speculative_tokens}"
        name = f"{self.drafting.title} {drafted}"
        rates = self.synthetic_acceptance_rates
        return name if rates is None else f"{name} at {1 + sum(rates):.2f}"

    def deeper_than(self, trained_depth: int | None) -> bool:
        """Whether K is more than a draft gives that was trained to this depth; of one unknown it is not."""
        return trained_depth is not None and self.num_speculative_tokens > trained_depth

    def engine_config(self) -> dict[str, Any]:
        """The `speculative_config` object: only what is set, the draft's path made absolute."""
        config = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        if self.model is not None:
            config["model"] = resolve_model(self.model)
        if self.synthetic_acceptance_rates is not None:
            config["rejection_sample_method"] = "synthetic"
        return config


class Traffic(Frozen):
    """Which prompts are sent, and how the answers are sampled."""

    domain: Name
    """A pocket domain; with `prompts`, one that their file names, or any name if it names none."""
    prompts: Name | None = None
    """JSONL file (`config.prompt_files`), as `paths.at` reads it; None for the domain's held-out prompts."""
    max_tokens: int = Field(default=128, ge=1)
    """Output cap, in tokens; answers stop by themselves before it."""
    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    seed: int = 0
    """Shuffles the prompts; the same in every arm."""

    def file(self) -> Path:
        """The prompts' JSONL."""
        return paths.at(self.prompts or f"models/heldout/{self.domain}.jsonl")


def one_kind(concurrency: int | None, request_rate_per_s: float | None) -> None:
    """Raise ValueError unless exactly one is given: requests arrive in a closed loop or at a rate."""
    if (concurrency is None) == (request_rate_per_s is None):
        raise ValueError("give `concurrency` (closed loop) or `request_rate_per_s` (Poisson), and not both")


class Load(Frozen):
    """How requests arrive: a closed loop of `concurrency`, or Poisson arrivals at `request_rate_per_s`."""

    concurrency: int | None = Field(default=None, ge=1)
    request_rate_per_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    num_requests: int = Field(ge=1, le=MOST_REQUESTS)
    num_warmups: int = Field(ge=0)

    @model_validator(mode="after")
    def _one_kind(self) -> "Load":
        one_kind(self.concurrency, self.request_rate_per_s)
        return self

    @property
    def fewest_requests(self) -> int:
        """Requests that a window of this concurrency needs; one slot, and Poisson arrivals, need one."""
        slots = self.concurrency or 1
        return REQUESTS_A_SLOT * slots if slots > 1 else 1

    @property
    def label(self) -> str:
        """Name for tables and figures."""
        if self.concurrency is not None:
            return f"batch {self.concurrency}"
        return f"Poisson {self.request_rate_per_s:g}/s"


class Arm(NamedTuple):
    """What is compared: a target, and how tokens are drafted for it. Two of equal settings are one key."""

    target: Target
    speculation: Speculation | None
    """None for a baseline."""

    def __str__(self) -> str:
        """Its name on pages: `baseline (eager)`, `EAGLE-3 K=5 (compiled)`."""
        return f"{self.speculation.label if self.speculation else 'baseline'} ({self.target.execution})"


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
    def arm(self) -> Arm:
        """The target and its draft."""
        return Arm(self.target, self.speculation)

    @property
    def key(self) -> str:
        """`v2-` and 16 hex digits that name this point: the digest of what was set.

        A field that has its default is left out, so that a new optional field renames no old point. So are
        the chapter that asked first and the target's name, which only people read.
        """
        return f"{KEY_VERSION}-{digest(self._set(), 16)}"

    @property
    def cell_key(self) -> str:
        """What arms that can be compared have in common: the point without its arm and restart."""
        body = self._set()
        body.pop("speculation", None)
        body.pop("restart")
        body["target"].pop("execution", None)
        return digest(body, 16)

    def _set(self) -> dict[str, Any]:
        left_out = {"chapter": True, "target": {"name"}}
        return self.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
