"""The record of one measured point: its schema, and its life on disk. The record is the truth."""

import hashlib
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from specbook import paths
from specbook.config import Frozen, Point
from specbook.errors import RecordError
from specbook.hardware import Hardware
from specbook.lossless_record import LosslessRecord
from specbook.provenance import Provenance

Kind = Literal["measured", "replayed", "computed", "synthetic-acceptance", "published", "simulated"]

REQUEST_COLUMNS = (
    "prompt_id", "start_s", "ttft_s", "itl_s", "e2e_s", "input_tokens", "output_tokens", "text", "error",
)  # fmt: skip


class SpecDecodeCounters(Frozen):
    """vLLM's own counters over the measured window; every acceptance figure is derived from these."""

    num_drafts: int = Field(ge=0)
    """Verification steps that had a draft."""
    num_draft_tokens: int = Field(ge=0)
    num_accepted_tokens: int = Field(ge=0)
    num_accepted_tokens_per_pos: tuple[int, ...]
    """Index i: drafts whose positions 0..i were all accepted (joint)."""


class ServerCounters(Frozen):
    """Deltas of the server's own `/metrics` over the measured window."""

    prompt_tokens: int = Field(ge=0)
    generation_tokens: int = Field(ge=0)
    requests_finished: int = Field(ge=0)
    prefix_cache_hits: int = Field(ge=0)
    """Prompt tokens served from the prefix cache; 0 when it is off."""
    preemptions: int = Field(ge=0)
    queue_time_s: float = Field(ge=0)
    """Sum over finished requests of the time before first scheduling."""


class Utilisation(Frozen):
    """Sampled about twice a second over the measured window."""

    samples: int = Field(ge=0)
    engine_cpu_cores: float | None
    """Mean cores busy in the server's processes."""
    client_cpu_cores: float | None
    """Mean cores busy in the load generator's process."""
    engine_rss_bytes: int | None
    """Peak resident memory of the server's processes."""
    gpu_utilisation: float | None
    """Mean share of time that a kernel ran, 0 to 1; None without a GPU."""
    gpu_memory_bytes: int | None


class Throughput(Frozen):
    """The load generator's own figures for the whole window."""

    duration_s: float = Field(gt=0)
    completed: int = Field(ge=0)
    failed: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    output_tokens_per_s: float = Field(ge=0)


class Measurement(Frozen):
    """What one point gave. Present exactly when the record's status is `ok`."""

    throughput: Throughput
    server: ServerCounters
    spec_decode: SpecDecodeCounters | None
    """None when nothing was drafted (the baseline)."""
    utilisation: Utilisation
    requests_file: str
    """Parquet beside the record: a row per request, columns `records.REQUEST_COLUMNS`."""
    requests_sha256: str


class RunRecord(Frozen):
    """One measured point, with all that is needed to believe it and to run it again."""

    record_type: Literal["run"] = "run"
    """Tells the kinds of record under results/ apart; the other is `LosslessRecord`."""
    schema_version: Literal[1]
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    key: str = Field(pattern=r"^[0-9a-f]{16}$")
    """`Point.key`: the configuration's digest."""
    kind: Kind
    status: Literal["ok", "failed"]
    reason: str | None
    """Why the point failed; None when it did not."""
    started_at: str
    """UTC, ISO 8601."""
    point: Point
    hardware: Hardware
    provenance: Provenance
    measurement: Measurement | None

    @model_validator(mode="after")
    def _status_says_what_exists(self) -> "RunRecord":
        if (self.status == "ok") != (self.measurement is not None):
            raise ValueError(f"status {self.status!r} contradicts measurement={self.measurement is not None}")
        if (self.status == "failed") != (self.reason is not None):
            raise ValueError("a failed record, and only a failed one, has a reason")
        if self.key != self.point.key:
            raise ValueError(f"key {self.key} is not the digest of its point, {self.point.key}")
        return self

    @property
    def chapter(self) -> str:
        """The folder under `results/<hardware-id>/`."""
        return self.point.chapter


AnyRecord = RunRecord | LosslessRecord
_RECORD: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="record_type")])


def folder(hardware_id: str, chapter: str) -> Path:
    """Where a chapter's records for one machine lie."""
    return paths.results_dir() / hardware_id / chapter


def _write_atomically(path: Path, data: bytes) -> None:
    """Write beside `path`, flush to disk, rename: a reader sees the old file, the new one, or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)  # mkstemp keeps it from other users; a record is for them
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RecordError(
            f"cannot write {path}: {error.strerror}. Records on disk before it are safe."
        ) from error


def write_requests(path: Path, rows: pd.DataFrame) -> str:
    """Write per-request rows (columns REQUEST_COLUMNS) as Parquet; returns the file's SHA-256."""
    if tuple(rows.columns) != REQUEST_COLUMNS:
        raise RecordError(f"per-request columns are {list(rows.columns)}, want {list(REQUEST_COLUMNS)}")
    data = rows.to_parquet(index=False, compression="zstd")
    _write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def append(record: AnyRecord) -> Path:
    """Put a record on disk; an existing one is never overwritten.

    Raises:
        RecordError: if the disk is full, the folder is not writable, or the run id exists.
    """
    path = folder(record.hardware.id, record.chapter) / f"{record.run_id}.json"
    if path.exists():
        raise RecordError(f"{path} exists: records are append-only")
    _write_atomically(path, (record.model_dump_json(indent=1) + "\n").encode())
    return path


def read(path: Path) -> AnyRecord:
    """Read and check one record.

    Raises:
        RecordError: if it cannot be read, is not JSON, or not a record of this schema.
    """
    try:
        return _RECORD.validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise RecordError(
            f"{path} is not a record: {where}: {first['msg']}. Move it out of results/, or restore it."
        ) from error


def load(hardware_id: str | None = None, chapters: Iterable[str] | None = None) -> list[RunRecord]:
    """Every run of one machine (default: all machines) and of some chapters (default: all), oldest first."""
    wanted = set(chapters) if chapters is not None else None
    found = [
        read(path)
        for path in sorted(paths.results_dir().glob(f"{hardware_id or '*'}/*/*.json"))
        if wanted is None or path.parent.name in wanted
    ]
    return sorted((r for r in found if isinstance(r, RunRecord)), key=lambda record: record.started_at)


def load_lossless(hardware_id: str | None = None) -> list[LosslessRecord]:
    """Every lossless check of one machine (default: all machines), oldest first."""
    found = map(read, sorted(paths.results_dir().glob(f"{hardware_id or '*'}/lossless/*.json")))
    return sorted((r for r in found if isinstance(r, LosslessRecord)), key=lambda record: record.started_at)


def requests(record: RunRecord) -> pd.DataFrame:
    """The record's per-request rows.

    Raises:
        RecordError: if the record failed, or its Parquet file is missing or was changed.
    """
    if record.measurement is None:
        raise RecordError(f"{record.run_id} failed ({record.reason}): it has no requests")
    path = folder(record.hardware.id, record.point.chapter) / record.measurement.requests_file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} is missing: restore it from git, or measure the point again") from error
    if hashlib.sha256(data).hexdigest() != record.measurement.requests_sha256:
        raise RecordError(f"{path} was changed after it was recorded: restore it from git")
    return _parse(data).copy(deep=False)


@lru_cache(maxsize=2048)
def _parse(data: bytes) -> pd.DataFrame:
    # A chapter asks for the same rows a dozen times, and reading Parquet is most of what it does.
    return pd.read_parquet(io.BytesIO(data))


def validate_all() -> Iterator[tuple[Path, str | None]]:
    """Each record under `results/` with None, or what is wrong with it or with its per-request file."""
    for path in sorted(paths.results_dir().glob("*/*/*.json")):
        try:
            record = read(path)
            if path.parent != folder(record.hardware.id, record.chapter):
                raise RecordError(
                    f"{path} lies in the wrong folder for {record.hardware.id}/{record.chapter}"
                )
            if isinstance(record, RunRecord) and record.measurement is not None:
                requests(record)
        except RecordError as error:
            yield path, str(error)
        else:
            yield path, None
