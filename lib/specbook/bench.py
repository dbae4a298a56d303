"""One point: warm up, open the window, load the server, close the window, check the books -> RunRecord."""

import json
import secrets
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specbook import books, loadgen, paths, provenance, records, traffic, utilisation
from specbook.books import Window
from specbook.config import Point, Speculation, Target
from specbook.engine import metrics
from specbook.engine.vllm import VllmServer
from specbook.errors import ConfigError, EngineError
from specbook.hardware import Hardware
from specbook.records import Measurement, RunRecord

DEATH_S = 10.0
"""How long a dying engine gets to say why."""


def new_run_id(point: Point) -> str:
    """UTC time, the point, and enough chance that two machines never collide."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{point.key[:8]}-{secrets.token_hex(2)}"


def measure(
    server: VllmServer,
    point: Point,
    *,
    hardware: Hardware,
    run_id: str | None = None,
    timeout_s: float = 3600,
) -> RunRecord:
    """Measure one point on a running server.

    The per-request rows are on disk when this returns; the record is the caller's to `records.append`, which
    commits it. A point that went wrong is a record too: its status is `failed` and it has a reason.

    Raises:
        ConfigError: if the point's prompts cannot be read, or the server runs another configuration.
    """
    _same_configuration(server, point)
    run_id, started_at = run_id or new_run_id(point), _now()
    chosen, warmup = traffic.measured_and_warmup(
        point.traffic, point.load.num_requests, point.load.num_warmups
    )
    scratch = paths.build_dir() / "bench"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        run = _Run(server, point, Path(folder), timeout_s)
        origin = _provenance(
            point, server, [arg.replace(folder, "build/bench") for arg in run.arguments(chosen, "window")]
        )
        try:
            run.load(warmup, "warmup")
            window = _observe(run, chosen)
            if problem := books.disagreement(window, point):
                raise EngineError(problem)
        except EngineError as error:
            return _failed(point, _reason(server, error), hardware, origin, run_id, started_at)
    measurement = _write(window, chosen, hardware, point, run_id)
    return RunRecord(
        schema_version=1, run_id=run_id, key=point.key, kind="measured", status="ok", reason=None,
        started_at=started_at, point=point, hardware=hardware, provenance=origin, measurement=measurement,
    )  # fmt: skip


def failed(point: Point, reason: str, *, hardware: Hardware, server: VllmServer | None = None) -> RunRecord:
    """The record of a point that could not be measured: its server crashed, or never became ready."""
    return _failed(point, reason, hardware, _provenance(point, server, []), new_run_id(point), _now())


@dataclass(frozen=True)
class _Run:
    """The load generator's side of one point: `load(prompts, name)` leaves `<name>.json` in `folder`."""

    server: VllmServer
    point: Point
    folder: Path
    timeout_s: float

    def arguments(self, prompts: list[traffic.Prompt], name: str) -> list[str]:
        dataset, result = self.folder / f"{name}.jsonl", self.folder / f"{name}.json"
        return loadgen.arguments(self.point, self.server.url, dataset, len(prompts), result)

    def load(self, prompts: list[traffic.Prompt], name: str) -> None:
        if not prompts:
            return
        traffic.write_bench_file(self.folder / f"{name}.jsonl", prompts, self.point.traffic.max_tokens)
        loadgen.shared().run(
            self.arguments(prompts, name),
            api_key=self.server.api_key, timeout_s=self.timeout_s, server_alive=self.server.is_alive,
        )  # fmt: skip

    def result(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))


def _observe(run: _Run, prompts: list[traffic.Prompt]) -> Window:
    # Warm-ups were a run of their own, so both readings lie around the measured requests alone.
    loadgen.shared().wait_ready()
    before = metrics.snapshot(run.server.metrics())
    with utilisation.Sampler(run.server.pids, loadgen.shared().pid) as sampler:
        run.load(prompts, "window")
    result = run.result("window")
    books.raise_if_requests_failed(result)
    server, spec_decode = metrics.settled(run.server.metrics, before, result["completed"])
    return Window(result, server, spec_decode, sampler.result())


def _write(
    window: Window, prompts: list[traffic.Prompt], hardware: Hardware, point: Point, run_id: str
) -> Measurement:
    path = records.folder(hardware.id, point.chapter) / f"{run_id}.parquet"
    digest = records.write_requests(path, books.rows(window.result, prompts))
    return Measurement(
        throughput=books.throughput(window.result), server=window.server, spec_decode=window.spec_decode,
        utilisation=window.utilisation, requests_file=path.name, requests_sha256=digest,
    )  # fmt: skip


def _reason(server: VllmServer, error: EngineError) -> str:
    """The error, and when the engine is dying its own last words."""
    deadline = time.monotonic() + DEATH_S
    while server.is_alive() and not server.is_healthy() and time.monotonic() < deadline:
        time.sleep(0.1)
    reason = str(error) if server.is_alive() else f"{error}. {server.obituary()}"
    return provenance.portable(reason)


def _same_configuration(server: VllmServer, point: Point) -> None:
    have: tuple[Target, Speculation | None] = (server.target, server.speculation)
    if have != (point.target, point.speculation):
        raise ConfigError(
            f"the server runs another configuration than point {point.key} ({point.arm}): start its own"
        )


def _provenance(point: Point, server: VllmServer | None, bench: list[str]) -> provenance.Provenance:
    sha, dirty = provenance.git_state()
    return provenance.Provenance(
        git_sha=sha, git_dirty=dirty, versions=provenance.versions(),
        weights_sha256=provenance.weights_sha256(point.target, point.speculation),
        prompts_sha256=provenance.file_sha256(point.traffic.file()) if point.traffic.file().is_file() else "",
        server_command=tuple(map(provenance.portable, server.command)) if server else (),
        server_env={k: provenance.portable(v) for k, v in server.environment.items()} if server else {},
        bench_command=tuple(map(provenance.portable, bench)), load_average_1min=provenance.load_average(),
    )  # fmt: skip


def _failed(
    point: Point, reason: str, hardware: Hardware, origin: provenance.Provenance, run_id: str, started_at: str
) -> RunRecord:
    return RunRecord(
        schema_version=1, run_id=run_id, key=point.key, kind="measured", status="failed", reason=reason,
        started_at=started_at, point=point, hardware=hardware, provenance=origin, measurement=None,
    )  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
