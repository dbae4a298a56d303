"""One point: warm up, open the window, load the server, close the window, check the books -> RunRecord."""

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from specbook import engine, paths, records
from specbook.bench import loadgen, provenance, stall, utilisation
from specbook.bench import prompt_order as traffic
from specbook.bench import reconcile as books
from specbook.bench.reconcile import Window
from specbook.config.schema import Point
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError, HangError
from specbook.records import streaming
from specbook.records.origin import Hardware, Provenance
from specbook.records.run import Measurement, Round, RunRecord

ALONE = Round(id="alone")
"""Round of a point that was measured beside no other."""


def new_run_id(point: Point) -> str:
    """UTC time, the point, and enough chance that two machines never collide."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{point.key[-16:-8]}-{secrets.token_hex(2)}"


def measure(
    server: Server,
    point: Point,
    *,
    hardware: Hardware,
    together: Round = ALONE,
    run_id: str | None = None,
    timeout_s: float = 3600,
) -> RunRecord:
    """Measure one point on a running server.

    The per-request rows are on disk when this returns; the record is the caller's to `records.append`, which
    commits it. A point that went wrong is a record too: its status is `failed` and it has a reason. A server
    that hangs is ended.

    Raises:
        ConfigError: if the point's prompts cannot be read, or the server runs another configuration.
    """
    _same_configuration(server, point)
    run_id, started_at = run_id or new_run_id(point), _now()
    chosen, warmup = traffic.measured_and_warmup(
        point.traffic, point.load.num_requests, point.load.num_warmups
    )
    with loadgen.scratch() as folder:
        run = _Run(server, point, folder, timeout_s)
        arguments = [arg.replace(str(folder), "build/bench") for arg in run.arguments(chosen, "window")]
        origin = _provenance(point, server, arguments)
        try:
            window = _observe(run, warmup, chosen)
            rows = books.rows(window.result, chosen)
            if problem := _problem(window, rows, point):
                raise EngineError(problem)
        except EngineError as error:
            reason = paths.portable(server.diagnosis(error))
            if isinstance(error, HangError):
                server.stop()  # it would hang on the next point too
            return _failed(point, reason, hardware, together, origin, run_id, started_at)
    measurement = _write(window, rows, hardware, point, run_id)
    return RunRecord(
        run_id=run_id, key=point.key, round=together, kind="measured", status="ok", reason=None,
        started_at=started_at, point=point, hardware=hardware, provenance=origin, measurement=measurement,
    )  # fmt: skip


def failed(
    point: Point,
    reason: str,
    *,
    hardware: Hardware,
    together: Round = ALONE,
    server: Server | None = None,
) -> RunRecord:
    """The record of a point that could not be measured: its server crashed, or never became ready."""
    origin = _provenance(point, server, [])
    return _failed(point, reason, hardware, together, origin, new_run_id(point), _now())


@dataclass(frozen=True)
class _Run:
    """The load generator's side of one point: `load(prompts, name)` leaves `<name>.json` in `folder`."""

    server: Server
    point: Point
    folder: Path
    timeout_s: float

    def arguments(self, prompts: list[traffic.Prompt], name: str) -> list[str]:
        dataset, result = self.folder / f"{name}.jsonl", self.folder / f"{name}.json"
        return engine.load_tool().arguments(self.point, self.server.client.url, dataset, len(prompts), result)

    def load(self, prompts: list[traffic.Prompt], name: str) -> None:
        if not prompts:
            return
        traffic.write_bench_file(self.folder / f"{name}.jsonl", prompts, self.point.traffic.max_tokens)
        loadgen.shared().run(
            self.arguments(prompts, name),
            api_key=self.server.api_key, timeout_s=self.timeout_s,
            watch=stall.Watch(self.server, self.point.load),
        )  # fmt: skip

    def result(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))


def _observe(run: _Run, warmup: list[traffic.Prompt], prompts: list[traffic.Prompt]) -> Window:
    loadgen.shared().wait_ready()
    started = run.server.counters()
    run.load(warmup, "warmup")
    # The last warm-up may be counted after its answer: in the window it would unbalance the books.
    before = counters.settled(run.server.counters, started, len(warmup))
    gpus = run.point.target.tensor_parallel_size
    with utilisation.Sampler(run.server.pids, loadgen.shared().pid, gpus) as sampler:
        run.load(prompts, "window")
    result = run.result("window")
    books.raise_if_requests_failed(result)
    after = counters.settled(run.server.counters, before, result["completed"])
    counted = counters.delta(before, after)
    return Window(result, counted.server, counted.spec_decode, sampler.result())


def _problem(window: Window, rows: pd.DataFrame, point: Point) -> str | None:
    stood = stall.stalled(window.result, point.load)
    return stood or books.disagreement(window, point) or books.not_full(rows, point.load)


def _write(window: Window, rows: pd.DataFrame, hardware: Hardware, point: Point, run_id: str) -> Measurement:
    path = records.folder(hardware.id, point.chapter) / f"{run_id}.parquet"
    digest = records.write_requests(path, rows)
    return Measurement(
        throughput=books.throughput(window.result), server=window.server, spec_decode=window.spec_decode,
        utilisation=window.utilisation, requests_file=path.name, requests_sha256=digest,
        late_first_chunks=int(streaming.first_chunks(rows).sum()), **books.steady_figures(rows, point.load),
    )  # fmt: skip


def _same_configuration(server: Server, point: Point) -> None:
    if (server.target, server.speculation) != point.arm:
        raise ConfigError(
            f"the server runs another configuration than point {point.key} ({point.arm}): start its own"
        )


def _provenance(point: Point, server: Server | None, bench: list[str]) -> Provenance:
    line = server.command if server else engine.of(point.target).command(*point.arm, port=0)
    ran = {"server_command": line, "bench_command": bench}
    found = provenance.today(*point.arm, point.traffic)
    return found.model_copy(update={name: tuple(map(paths.portable, args)) for name, args in ran.items()})


def _failed(
    point: Point,
    reason: str,
    hardware: Hardware,
    together: Round,
    origin: Provenance,
    run_id: str,
    started_at: str,
) -> RunRecord:
    return RunRecord(
        run_id=run_id, key=point.key, round=together, kind="measured", status="failed", reason=reason,
        started_at=started_at, point=point, hardware=hardware, provenance=origin, measurement=None,
    )  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
