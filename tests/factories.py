"""Made-up records for tests. Nothing here was measured: never copy such a file into results/."""

import numpy as np
import pandas as pd

from specbook import records
from specbook.config.schema import Load, Point, Speculation, Target, Traffic
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

HARDWARE = Hardware(
    id="cpu-test-2c", kind="cpu", cpu_model="test", physical_cores=2, logical_cores=2, memory_bytes=2**33
)
PROVENANCE = Provenance(
    git_sha=None, git_dirty=None, versions={}, weights_sha256={"target": "0"}, prompts_sha256="0",
    server_command=(), server_env={}, bench_command=(), load_average_1min=0.0,
)  # fmt: skip
IDLE = Utilisation(
    samples=0, engine_cpu_cores=None, client_cpu_cores=None, engine_rss_bytes=None, gpu_utilisation=None,
    gpu_memory_bytes=None,
)  # fmt: skip


def target(execution: str = "compiled", **fields) -> Target:
    return Target(
        **{"name": "pocket", "model": "models/pocket", "max_model_len": 512, "execution": execution, **fields}
    )


def eagle3(k: int = 5, **fields) -> Speculation:
    return Speculation(
        **{"method": "eagle3", "model": "models/eagle3", "num_speculative_tokens": k, **fields}
    )


def counters(per_pos=(80, 50, 30), drafts: int = 100) -> SpecDecodeCounters:
    return SpecDecodeCounters(
        num_drafts=drafts, num_draft_tokens=drafts * len(per_pos), num_accepted_tokens=sum(per_pos),
        num_accepted_tokens_per_pos=tuple(per_pos),
    )  # fmt: skip


def point(speculation=None, *, domain="json", concurrency=1, restart=0, num_requests=4, **more) -> Point:
    return Point(
        chapter="test", target=more.pop("target", target()), speculation=speculation,
        traffic=Traffic(domain=domain), restart=restart,
        load=Load(concurrency=concurrency, num_requests=num_requests, num_warmups=0),
    )  # fmt: skip


def together(where: Point) -> Round:
    return Round(id=f"round-{where.restart}")


def rows(n: int = 4, tpot_s: float = 0.01, tokens: int = 11, seed: int = 0) -> pd.DataFrame:
    """`n` requests of `tokens` tokens, 20 ms to the first, then about `tpot_s` each."""
    spread = np.random.default_rng(seed).uniform(0.99, 1.01, size=n)
    frame = pd.DataFrame(
        {
            "prompt_id": [f"p{i}" for i in range(n)],
            "start_s": np.arange(n, dtype=float),
            "ttft_s": 0.02,
            "itl_s": [[tpot_s * s] * (tokens - 1) for s in spread],
            "e2e_s": 0.02 + tpot_s * spread * (tokens - 1),
            "input_tokens": 5,
            "output_tokens": tokens,
            "text": "x",
            "error": None,
        }
    )
    return frame[list(records.REQUEST_COLUMNS)]


def write_run(where: Point, tokens_per_s: float, *, spec_decode=None, requests=None, **fields) -> RunRecord:
    """A good record of `where`, its per-request rows on disk under `paths.results_dir()`."""
    requests = rows(where.load.num_requests, 1 / tokens_per_s) if requests is None else requests
    own = fields.pop("together", None) or together(where)
    run_id = fields.pop("run_id", f"{where.key}-{fields.get('started_at', '0')}")
    path = records.folder(HARDWARE.id, where.chapter) / f"{run_id}.parquet"
    total = int(requests["output_tokens"].sum())
    measurement = Measurement(
        throughput=Throughput(
            duration_s=total / tokens_per_s, completed=len(requests), failed=0, output_tokens=total,
            output_tokens_per_s=tokens_per_s,
        ),
        server=ServerCounters(
            prompt_tokens=1, generation_tokens=total, requests_finished=len(requests), prefix_cache_hits=0,
            preemptions=0, queue_time_s=0.0,
        ),
        spec_decode=spec_decode, utilisation=IDLE, requests_file=path.name,
        requests_sha256=records.write_requests(path, requests),
    )  # fmt: skip
    body = {
        "run_id": run_id, "key": where.key, "round": own, "kind": "measured", "status": "ok",
        "reason": None, "started_at": "2026-01-01T00:00:00+00:00", "point": where, "hardware": HARDWARE,
        "provenance": PROVENANCE, "measurement": measurement,
    }  # fmt: skip
    return RunRecord(**{**body, **fields})


def failed_run(where: Point) -> RunRecord:
    return RunRecord(
        run_id=f"{where.key}-failed", key=where.key, round=together(where), kind="measured", status="failed",
        reason="it crashed", started_at="2026-01-01T00:00:00+00:00", point=where, hardware=HARDWARE,
        provenance=PROVENANCE, measurement=None,
    )  # fmt: skip
