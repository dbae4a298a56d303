"""Made-up records for a whole plan, in the real schema: chapters replay them where `results/` has none.

They follow a simple model of a server (a step costs so much, a draft token is accepted so often), so figures
have their usual shapes. `kind` is `simulated`: nothing drawn from them can be taken for a measurement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd

from specbook import records
from specbook.bench import loadgen
from specbook.config import Plan
from specbook.config.schema import Point
from specbook.records.lossless import LosslessRecord
from specbook.records.run import (
    Hardware,
    Measurement,
    Provenance,
    Round,
    RunRecord,
    ServerCounters,
    SpecDecodeCounters,
    Throughput,
    Utilisation,
)
from specbook.stats import wilson
from specbook.stats.equality import Divergence, Equality
from specbook.stats.estimate import Estimate

TOKENS = {"json": 90, "math": 60, "chat": 120, "code": 140}
READING_S = 0.0002
"""What each token of a prompt adds to TTFT."""
EAGER = 1.6
"""A step of the eager mode, in steps of the compiled one, at batch 1."""


@dataclass(frozen=True)
class World:
    """What made-up records obey; a test asks for another where its truth is another."""

    acceptance: Mapping[str, float] = field(
        default_factory={"json": 0.9, "math": 0.8, "chat": 0.62, "code": 0.55}.copy
    )
    """Conditional acceptance at the first draft position; it falls by 2 % a position."""
    step_s: Mapping[int, float] = field(default_factory={1: 0.0075, 8: 0.011, 32: 0.018}.copy)
    """By batch: a step without speculation, ..."""
    verify: Mapping[int, float] = field(default_factory={1: 1.15, 8: 1.35, 32: 1.9}.copy)
    """... what verification costs, in such steps, ..."""
    draft: Mapping[int, float] = field(default_factory={1: 0.09, 8: 0.12, 32: 0.2}.copy)
    """... and what each draft token adds."""
    late_share: float = 0.0
    """Of the answers without speculation: they come all at once."""
    failed: Callable[[Point], bool] = field(default=lambda point: False)
    """Points that could not be measured: they have no record."""
    most_requests: int = 256
    """Of a window: where a test reads sentences, a few say as much as a plan's hundreds."""


USUAL = World()
HARDWARE = Hardware(
    id="cpu-simulated-2c", kind="cpu", cpu_model="simulated", physical_cores=None, logical_cores=2,
    memory_bytes=2**34, peak_flops_per_s=2e11, peak_bytes_per_s=2e10, peak_source="made up",
)  # fmt: skip
ORIGIN = Provenance(
    git_sha="0" * 40, git_dirty=False, versions={"vllm": "0"}, weights_sha256={"target": "0" * 64},
    prompts_sha256="0" * 64, server_command=(), server_env={}, bench_command=(), load_average_1min=0.0,
)  # fmt: skip
ARMS = ("baseline", "speculation", "control", "repeat")
START = datetime(2026, 1, 1, tzinfo=UTC)


def write(plan: Plan, seed: int = 0, world: World = USUAL) -> int:
    """Append a record for each of the plan's points under SPECBOOK_RESULTS; returns how many."""
    points = [point for point in plan.points() if not world.failed(point)]
    for index, point in enumerate(points):
        records.append(_record(point, index, np.random.default_rng((seed, index)), world))
    return len(points)


def write_lossless(plan: Plan, dtype: str, forks: int, control_forks: int) -> None:
    """Append one lossless check of 40 prompts in which the first `forks` answers differ."""
    ids = tuple(f"{domain}-{i}" for domain in plan.domains for i in range(10))
    target, speculation = next((t, s) for t, s in plan.arms() if s is not None)
    target = target.model_copy(update={"dtype": dtype})
    records.append(
        LosslessRecord(
            schema_version=1, run_id=f"simulated-lossless-{dtype}", kind="simulated",
            started_at=START.isoformat(),
            hardware=HARDWARE, provenance=dict.fromkeys(ARMS, ORIGIN),
            target=target, speculation=speculation,
            control_execution="eager" if target.execution == "compiled" else "compiled",
            max_tokens=plan.max_tokens, concurrency=1, prompt_ids=ids,
            equality=_equality(len(ids), forks), control=_equality(len(ids), control_forks),
            repeat=_equality(len(ids), 0),
            divergences=_forks(ids, forks), control_divergences=_forks(ids, control_forks),
            accuracy={arm: _accuracy(plan.domains) for arm in ARMS},
        )
    )  # fmt: skip


def _equality(n: int, forks: int) -> Equality:
    where = tuple(20 if i < forks else None for i in range(n))
    return Equality(n=n, equal=n - forks, first_divergence_index=where)


def _forks(ids: Sequence[str], forks: int) -> tuple[Divergence, ...]:
    return tuple(
        Divergence(prompt_id=name, index=20, token_a=5, token_b=7, margin_logits=0.01 * (i + 1))
        for i, name in enumerate(ids[:forks])
    )


def _accuracy(domains: Sequence[str]) -> dict[str, Estimate]:
    return {domain: wilson(8, 10) for domain in domains}


def _record(point: Point, index: int, rng: np.random.Generator, world: World) -> RunRecord:
    run_id, chapter = f"simulated-{index:05d}-{point.key[:8]}", point.chapter
    rows, spec, queue_s = _requests(point, rng, world)
    path = records.folder(HARDWARE.id, chapter) / f"{run_id}.parquet"
    digest = records.write_requests(path, rows)
    duration = float((rows["start_s"] + rows["e2e_s"]).max())
    tokens = int(rows["output_tokens"].sum())
    return RunRecord(
        run_id=run_id, key=point.key, round=Round(id=f"round-{point.restart}"),
        kind="simulated", status="ok", reason=None,
        started_at=(START + timedelta(seconds=60 * index)).isoformat(), point=point, hardware=HARDWARE,
        provenance=ORIGIN,
        measurement=Measurement(
            throughput=Throughput(duration_s=duration, completed=len(rows), failed=0, output_tokens=tokens,
                                  output_tokens_per_s=tokens / duration),
            server=ServerCounters(prompt_tokens=int(rows["input_tokens"].sum()), generation_tokens=tokens,
                                  requests_finished=len(rows), prefix_cache_hits=0, preemptions=0,
                                  queue_time_s=queue_s),
            spec_decode=spec,
            utilisation=Utilisation(samples=20, engine_cpu_cores=1.9, client_cpu_cores=0.1,
                                    engine_rss_bytes=2**30, gpu_utilisation=None, gpu_memory_bytes=None),
            requests_file=path.name, requests_sha256=digest,
        ),
    )  # fmt: skip


def _batch(point: Point) -> int:
    if point.load.concurrency is not None:
        return min(USUAL.step_s, key=lambda b: abs(b - point.load.concurrency))
    return 1 if point.load.request_rate_per_s < 4 else 8


def _requests(
    point: Point, rng: np.random.Generator, world: World
) -> tuple[pd.DataFrame, SpecDecodeCounters | None, float]:
    n, batch = min(point.load.num_requests, world.most_requests), _batch(point)
    domain = point.traffic.domain
    k = point.speculation.num_speculative_tokens if point.speculation else 0
    lengths_rng = np.random.default_rng(n * 7 + len(domain))
    usual = TOKENS.get(domain, 100)
    lengths = np.clip(lengths_rng.normal(usual, 25, n), 8, point.traffic.max_tokens).astype(int)
    step = world.step_s[batch] * (EAGER / batch**0.1 if point.target.execution == "eager" else 1.0)
    step *= (world.verify[batch] + k * world.draft[batch] if k else 1.0) * rng.lognormal(0, 0.02)
    rate = world.acceptance.get(domain, 0.6)
    chunks, accepted = zip(*(_chunks(int(size), k, rate, rng) for size in lengths), strict=True)
    itl = [step * rng.lognormal(0, 0.15, max(steps - 1, 1)) for steps in chunks]
    ttft = 2.5 * step * rng.lognormal(0, 0.2, n)
    e2e = ttft + np.array([gaps.sum() for gaps in itl])
    if k == 0:
        for late in range(int(np.ceil(world.late_share * n))):
            itl[late], ttft[late] = np.full_like(itl[late], 3e-6), e2e[late]
    names, sizes = zip(*_asked(point, n), strict=True)
    reading_s = READING_S * np.array(sizes)
    ttft, e2e = ttft + reading_s, e2e + reading_s
    start, waits = _arrivals(point, e2e, rng)
    rows = pd.DataFrame({
        "prompt_id": names, "start_s": start, "ttft_s": ttft + waits,
        "itl_s": [gaps.tolist() for gaps in itl], "e2e_s": e2e + waits, "input_tokens": sizes,
        "output_tokens": lengths, "text": ["word " * size for size in lengths], "error": "",
    })  # fmt: skip
    return rows, _counters(k, accepted) if k else None, float(waits.sum())


def _asked(point: Point, n: int) -> list[tuple[str, int]]:
    """(id, tokens) of the prompts that a server would have been sent; made up where there are none."""
    if not point.traffic.file().is_file():
        return [(f"{point.traffic.domain}-{i}", 40 + i % 7) for i in range(n)]
    asked, _ = loadgen.measured_and_warmup(point.traffic, n, 0)
    return [(one.id, len(one.prompt) // 4) for one in asked]


def _chunks(tokens: int, k: int, rate: float, rng: np.random.Generator) -> tuple[int, list[int]]:
    """How many steps an answer took, and how many draft tokens each of them accepted."""
    if not k:
        return tokens, [0] * tokens
    missed = rng.random((tokens, k)) >= rate * 0.98 ** np.arange(k)
    took = np.where(missed.any(axis=1), missed.argmax(axis=1), k)
    steps = int(np.searchsorted(np.cumsum(1 + took), tokens)) + 1
    return steps, took[:steps].tolist()


def _counters(k: int, accepted: Sequence[list[int]]) -> SpecDecodeCounters:
    took = np.concatenate(accepted)
    positions = tuple(int((took > i).sum()) for i in range(k))
    return SpecDecodeCounters(
        num_drafts=len(took), num_draft_tokens=k * len(took), num_accepted_tokens=sum(positions),
        num_accepted_tokens_per_pos=positions,
    )  # fmt: skip


def _arrivals(point: Point, e2e: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(start, queue wait). Closed: each client sends when answered. Poisson: it serves ten a second."""
    if point.load.concurrency is None:
        start = np.cumsum(rng.exponential(1 / point.load.request_rate_per_s, len(e2e)))
        return start, np.maximum(np.arange(len(e2e)) / 10.0 - start, 0.0)
    clients, start = np.zeros(point.load.concurrency), np.zeros(len(e2e))
    for i, length in enumerate(e2e):
        free = int(clients.argmin())
        start[i] = clients[free]
        clients[free] += length
    return start, np.zeros(len(e2e))
