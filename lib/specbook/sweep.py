"""What one chapter measures: arms, loads and domains, and the order in which their points are measured."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from specbook.config import ExecutionMode, Frozen, Load, Point, Speculation, Target, Traffic


class Draft(Frozen):
    """One way to propose tokens, before K is chosen; see `config.Speculation` for the fields."""

    method: Literal["ngram", "draft_model", "eagle3", "suffix"]
    model: str | None = None
    revision: str | None = None
    parallel_drafting: bool = False
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None


class Lossless(Frozen):
    """The lossless check of a chapter: every draft at one K, token by token against no speculation."""

    num_speculative_tokens: int
    dtypes: tuple[Literal["float32", "bfloat16", "float16"], ...] = Field(min_length=1)
    """float32 shows that the method changes nothing; the served precision shows what rounding changes."""
    prompts_per_domain: int = Field(ge=1)
    concurrency: int = Field(ge=1)


class Plan(Frozen):
    """What one chapter measures, on one hardware. The fields are the keys of a group in a parameter file."""

    chapter: str
    hardware: str
    """Folder under params/."""
    group: str
    """`quick` fits ten minutes for the whole book; `full` is what `results/` ships."""
    target: Target
    baselines: tuple[ExecutionMode, ...] = Field(min_length=1)
    """Execution modes of the arms without speculation; the faster one is the baseline of a ratio."""
    drafts: tuple[Draft, ...] = ()
    num_speculative_tokens: tuple[int, ...] = ()
    """Every draft is measured at each of these K."""
    domains: tuple[str, ...] = Field(min_length=1)
    concurrency: tuple[int, ...]
    """Closed loops; also called batch, since each request is one sequence of the engine's batch."""
    request_rate_per_s: tuple[float, ...] = ()
    """Poisson arrivals, only in the first of `baselines`."""
    num_requests: dict[int, int]
    """Requests in a closed loop's window, by concurrency."""
    poisson_window_s: float = 0
    """How long requests keep arriving; their number is this times the rate."""
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    restarts: int = Field(ge=1)
    """Server starts per arm."""
    lossless: Lossless | None = None

    def speculations(self, ks: Sequence[int]) -> list[Speculation]:
        """Every draft at each of these K."""
        drafts = [draft.model_dump() for draft in self.drafts]
        return [Speculation(num_speculative_tokens=k, **draft) for draft in drafts for k in ks]

    def arms(self) -> list[tuple[Target, Speculation | None]]:
        """Baselines first, then every draft at every K, in the target's own execution mode."""
        base = [(self.target.model_copy(update={"execution": mode}), None) for mode in self.baselines]
        return base + [(self.target, s) for s in self.speculations(self.num_speculative_tokens)]

    def loads(self, target: Target, speculation: Speculation | None) -> list[Load]:
        """Closed loops for every arm; Poisson arrivals too for the first one."""
        closed = [
            Load(concurrency=c, num_requests=self.num_requests[c], num_warmups=max(4, c))
            for c in self.concurrency
        ]
        open_ = [
            Load(request_rate_per_s=rate, num_requests=round(rate * self.poisson_window_s), num_warmups=8)
            for rate in self.request_rate_per_s
        ]
        return closed + open_ if (target, speculation) == self.arms()[0] else closed

    def points(self) -> list[Point]:
        """All points, in the order of measuring: restart by restart, arms interleaved, rotated each restart.

        Points that share a restart, target and speculation are neighbours: one server serves them all.
        """
        return [point for restart in range(self.restarts) for point in self._one_restart(restart)]

    def _one_restart(self, restart: int) -> Iterator[Point]:
        arms = self.arms()
        first = restart % len(arms)  # no arm is always the one that follows another
        for target, speculation in arms[first:] + arms[:first]:
            for load in self.loads(target, speculation):
                for traffic in self.traffic():
                    yield Point(
                        chapter=self.chapter, target=target, speculation=speculation, traffic=traffic,
                        load=load, restart=restart,
                    )  # fmt: skip

    def traffic(self) -> list[Traffic]:
        """One per domain, in the plan's order."""
        how = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        return [Traffic(domain=domain, **how) for domain in self.domains]
