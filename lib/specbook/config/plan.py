"""What one chapter measures: arms, loads and domains, and the points that they make."""

import os.path
from collections.abc import Collection, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import Field

from specbook import paths
from specbook.config import datasets, prompt_files
from specbook.config.schema import (
    Arm,
    Domain,
    Draft,
    ExecutionMode,
    Frozen,
    Load,
    Name,
    Point,
    Speculation,
    Target,
    Traffic,
)
from specbook.errors import ConfigError
from specbook.suggestions import near


class Lossless(Frozen):
    """The lossless check of a chapter: every draft at one K, token by token against no speculation."""

    num_speculative_tokens: int
    dtypes: tuple[Literal["float32", "bfloat16", "float16"], ...] = Field(min_length=1)
    """float32 shows that the method changes nothing; the served precision shows what rounding changes."""
    prompts_per_domain: int = Field(ge=1)
    concurrency: int = Field(ge=1)


class PlannedDraft(Draft):
    """A draft of a sweep, measured at the sweep's K, or at its own."""

    num_speculative_tokens: tuple[int, ...] = ()
    """In place of the sweep's: what is best for one method may be out of the question for another."""


class AnyPlan(Frozen):
    """One group of a chapter's parameter file, on one hardware; by itself it measures nothing."""

    chapter: str
    hardware: str
    """Folder under params/."""
    group: str
    """`quick` fits ten minutes for the whole book; `full` is what `results/` ships."""

    def parts(self) -> list["Plan"]:
        """The sweeps that the chapter measures itself."""
        return []

    def points(self) -> list[Point]:
        """Points of all sweeps, in their order."""
        return [point for sweep in self.parts() for point in sweep.points()]

    def models(self) -> list[str]:
        """Every model that it serves or drafts with, once."""
        return []

    def without(self, models: Collection[str]) -> Self:
        """The plan less its drafts, sweeps and experiments of these models, named as plans name them."""
        return self

    def check(self) -> None:
        """Raise ConfigError, or pydantic's ValidationError, if it cannot be measured or priced."""

    def _error(self, problem: str) -> ConfigError:
        return ConfigError(f"plan of {self.chapter}: {problem}")


class Plan(AnyPlan):
    """A sweep of one target's server. The fields are the keys of a group in a parameter file."""

    target: Target
    baselines: tuple[ExecutionMode, ...] = Field(min_length=1)
    """Execution modes of the arms without speculation; the faster one is the baseline of a ratio."""
    drafts: tuple[PlannedDraft, ...] = ()
    num_speculative_tokens: tuple[int, ...] = ()
    """Every draft without K of its own is measured at each of these."""
    synthetic_acceptance_rates: tuple[tuple[float, ...], ...] = ()
    """Sets of joint rates, each of as many positions as the largest K or more. Every draft is measured at
    each set, cut to K, in place of its own acceptance."""
    prompts: Name | None = None
    """A JSONL file of your own traffic, in place of the pocket models' held-out prompts."""
    domains: tuple[Name, ...] = Field(min_length=1)
    """Domains of the held-out prompts; with `prompts` and none named, those that its lines name."""
    concurrency: tuple[int, ...]
    """Closed loops; also called batch, since each request is one sequence of the engine's batch."""
    request_rate_per_s: tuple[Annotated[float, Field(gt=0, le=1e6)], ...] = ()
    """Poisson arrivals, only in the first of `baselines`."""
    num_requests: dict[int, int]
    """Requests in a closed loop's window, by concurrency."""
    num_warmups: int = Field(default=4, ge=1)
    """Requests before that window, at least one a slot."""
    poisson_window_s: float = Field(default=0, ge=0, le=86_400)
    """How long requests keep arriving; their number is this times the rate."""
    max_tokens: int
    capped: bool = False
    """`max_tokens` ends most answers on purpose, to save time; it is refused where records say so."""
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    seed: int = 0
    restarts: int = Field(ge=1, le=1000)
    """Server starts per arm."""
    lossless: Lossless | None = None

    def parts(self) -> list["Plan"]:
        """This one."""
        return [self]

    def models(self) -> list[str]:
        """Its target and its drafts' models."""
        return [self.target.model, *(draft.model for draft in self.drafts if draft.model)]

    def without(self, models: Collection[str]) -> Self:
        """The sweep less its drafts of these models."""
        return self.model_copy(
            update={"drafts": tuple(one for one in self.drafts if one.model not in models)}
        )

    def speculations(self, ks: Sequence[int] | None = None) -> list[Speculation]:
        """Every draft at each of these K; None: at those it is measured at."""
        rates = self.synthetic_acceptance_rates
        return [
            Speculation(**draft.model_dump() | {"num_speculative_tokens": k} | played)
            for draft in self.drafts
            for k in ks or draft.num_speculative_tokens or self.num_speculative_tokens
            for played in [{"synthetic_acceptance_rates": joint[:k]} for joint in rates] or [{}]
        ]

    def arms(self) -> list[Arm]:
        """Baselines first, then every draft at every K, in the target's own execution mode."""
        base = [Arm(self.target.model_copy(update={"execution": mode}), None) for mode in self.baselines]
        return base + [Arm(self.target, speculation) for speculation in self.speculations()]

    def loads(self, arm: Arm) -> list[Load]:
        """Closed loops for every arm; Poisson arrivals too for the first one."""
        closed = [
            Load(concurrency=c, num_requests=self.num_requests[c], num_warmups=max(self.num_warmups, c))
            for c in self.concurrency
        ]
        open_ = [
            Load(request_rate_per_s=rate, num_requests=round(rate * self.poisson_window_s), num_warmups=8)
            for rate in self.request_rate_per_s
        ]
        return closed + open_ if arm == self.arms()[0] else closed

    def points(self) -> list[Point]:
        """All points, as they are read, restart by restart; `config.order` decides what is measured when."""
        return [
            Point(
                chapter=self.chapter, target=arm.target, speculation=arm.speculation, traffic=traffic,
                load=load, restart=restart,
            )
            for restart in range(self.restarts)
            for arm in self.arms()
            for load in self.loads(arm)
            for traffic in self.traffic()
        ]  # fmt: skip

    def traffic(self) -> list[Traffic]:
        """One per domain, in the plan's order."""
        how = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        return [Traffic(domain=domain, prompts=self.prompts, **how) for domain in self.domains]

    def check(self) -> None:
        """Raise ConfigError, or pydantic's ValidationError, if a point of the plan could not be measured."""
        self._check_loads()
        for traffic in self.traffic():
            self._check_own(traffic) if traffic.prompts else self._check_heldout(traffic)
        keys = [point.key for point in self.points()]
        if len(set(keys)) < len(keys):
            raise self._error("a list names one value twice: name it once")
        if self.lossless is not None:
            self.speculations((self.lossless.num_speculative_tokens,))

    def _check_loads(self) -> None:
        most = self.target.max_num_seqs
        loads = [*self.concurrency, *([self.lossless.concurrency] if self.lossless else [])]
        if missing := [c for c in self.concurrency if c not in self.num_requests]:
            raise self._error(f"num_requests has no entry for concurrency {missing}: add it")
        if too_many := sorted({c for c in loads if c > most}):
            raise self._error(
                f"concurrency {too_many} exceeds max_num_seqs {most} of the target: the rest would queue and "
                "be no part of the batch. Raise max_num_seqs, or lower concurrency"
            )
        if self.max_tokens >= self.target.max_model_len:
            raise self._error(
                f"max_tokens {self.max_tokens} leaves no room for a prompt in max_model_len "
                f"{self.target.max_model_len} of the target: lower the one, or raise the other"
            )

    def _check_heldout(self, traffic: Traffic) -> None:
        file, domains = traffic.file(), get_args(Domain)
        if os.path.isfile(file):
            return
        if traffic.domain not in domains:
            raise self._error(
                f"no domain {traffic.domain!r}{near(traffic.domain, domains)}. "
                "To ask prompts of your own, give their file as `prompts`"
            )
        raise self._error(
            f"no prompts of domain {traffic.domain!r} yet: {paths.portable(str(file))} is not there. "
            "Leave the domain out, or give `prompts`, a JSONL file of your own"
        )

    def _check_own(self, traffic: Traffic) -> None:
        """A batch that holds one prompt several times says little of a batch of traffic.

        A data set that was not fetched yet is checked when it is measured: a replayed page needs none.
        """
        if not traffic.file().is_file() and datasets.kept_as(str(traffic.prompts)):
            return
        distinct, batch = len(prompt_files.for_traffic(traffic)), max(self.concurrency, default=1)
        if distinct < batch:
            raise self._error(
                f"{self.prompts} has {distinct} distinct prompts of {traffic.domain!r}, and a batch of "
                f"{batch} would hold some twice: give at least {batch}, or lower `concurrency`"
            )
