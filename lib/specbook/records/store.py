"""Records on disk. A new one has a file of its own; `pack` puts it with others, and only `drop` removes one.

A kill at any moment leaves a record in its own file, in a pack, or in both: a reader sees each run id once.
"""

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from specbook import paths
from specbook.errors import RecordError
from specbook.records import packfile
from specbook.records.atomic_files import sync_names, write_atomically
from specbook.records.lossless import LosslessRecord, MarginsRecord, with_margins
from specbook.records.run import REQUEST_COLUMNS, ExperimentRecord, RunRecord

AnyRecord = RunRecord | LosslessRecord | MarginsRecord | ExperimentRecord
_RECORD: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="record_type")])


def folder(hardware_id: str, chapter: str) -> Path:
    """Where a chapter's records for one machine lie."""
    return paths.results_dir() / hardware_id / chapter


def write_requests(path: Path, rows: pd.DataFrame) -> str:
    """Write per-request rows (columns REQUEST_COLUMNS) as Parquet; returns the file's SHA-256."""
    if tuple(rows.columns) != REQUEST_COLUMNS:
        raise RecordError(f"per-request columns are {list(rows.columns)}, want {list(REQUEST_COLUMNS)}")
    data = rows.to_parquet(index=False, compression="zstd")
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def append(record: AnyRecord) -> Path:
    """Put a record on disk; an existing one is never overwritten.

    Raises:
        RecordError: if the disk is full, the folder is not writable, or the run id exists.
    """
    path = folder(record.hardware.id, record.chapter) / f"{record.run_id}.json"
    packs = (held.path for held in packfile.packs(path.parent) if record.run_id in held.documents)
    if holder := path if path.exists() else next(packs, None):
        raise RecordError(f"{holder} exists and has {record.run_id}: records are append-only")
    write_atomically(path, (record.model_dump_json(indent=1) + "\n").encode())
    return path


def check_writable(hardware_id: str) -> None:
    """Raise RecordError now if records of this machine could not be written later."""
    probe = paths.results_dir() / hardware_id / f".probe-{os.getpid()}"
    write_atomically(probe, b"")
    probe.unlink()


def read(path: Path) -> AnyRecord:
    """Read one record's own file; RecordError if that fails, or it is no JSON or no record of this schema."""
    try:
        return _single(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise _no_record(str(path), error) from error


@lru_cache(maxsize=2048)
def _single(data: bytes) -> AnyRecord:
    return _RECORD.validate_json(data)


def packed(path: Path) -> tuple[AnyRecord, ...]:
    """The records of one pack; RecordError if it was changed, or one is not a record of this schema."""
    return _packed(packfile.read(path))


@lru_cache(maxsize=64)
def _packed(pack: packfile.Pack) -> tuple[AnyRecord, ...]:
    made = []
    for run_id, document in pack.documents.items():
        try:
            made.append(_RECORD.validate_python(document))
        except ValidationError as error:
            raise _no_record(f"{run_id} in {pack.path}", error) from error
    return tuple(made)


def _no_record(name: str, error: ValidationError) -> RecordError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    return RecordError(
        f"{name} is not a record: {where}: {first['msg']}. Move it out of results/, or restore it."
    )


def load(hardware_id: str | None = None, chapters: Iterable[str] | None = None) -> list[RunRecord]:
    """Every run of one machine (default: all machines) and of some chapters (default: all), oldest first."""
    runs = (r for r in everything(hardware_id, chapters) if isinstance(r, RunRecord))
    return sorted(runs, key=lambda record: record.started_at)


def load_lossless(hardware_id: str | None = None) -> list[LosslessRecord]:
    """Every lossless check of one machine (default: all machines) with its margins, oldest first."""
    every = everything(hardware_id, ["lossless"])
    checks = sorted((r for r in every if isinstance(r, LosslessRecord)), key=lambda record: record.started_at)
    return with_margins(checks, (r for r in every if isinstance(r, MarginsRecord)))


def everything(hardware_id: str | None = None, chapters: Iterable[str] | None = None) -> list[AnyRecord]:
    """Every record of any kind, by run id; see `load`."""
    wanted = set(chapters) if chapters is not None else None
    by_id: dict[str, AnyRecord] = {}
    for where in folders(hardware_id):
        if wanted is None or where.name in wanted:
            by_id |= {record.run_id: record for record in _singles(where)}
            by_id |= {record.run_id: record for path in packfile.files(where) for record in packed(path)}
    return [by_id[run_id] for run_id in sorted(by_id)]


def _singles(where: Path) -> Iterator[AnyRecord]:
    for path in sorted(where.glob("*.json")):
        try:
            yield read(path)
        except RecordError:
            if path.exists():
                raise
            # Packed since the folder was listed; packs are read after this.


def folders(hardware_id: str | None = None) -> list[Path]:
    """The chapters' folders of one machine (default: all), by name; RecordError if results/ is no folder."""
    top = paths.results_dir()
    if os.path.lexists(top) and not top.is_dir():
        raise RecordError(f"{top} is no folder: move it away, or set SPECBOOK_RESULTS to one")
    return sorted(path for path in top.glob(f"{hardware_id or '*'}/*/") if path.is_dir())


def requests(record: RunRecord) -> pd.DataFrame:
    """The record's per-request rows; RecordError if it failed, or they are missing or were changed."""
    if record.measurement is None:
        raise RecordError(f"{record.run_id} failed ({record.reason}): it has no requests")
    path = folder(record.hardware.id, record.chapter) / record.measurement.requests_file
    try:
        data = path.read_bytes()
    except OSError as error:
        for held in packfile.packs(path.parent):
            if record.run_id in held.documents:
                return held.requests(record.run_id)
        why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise RecordError(f"{path} {why}: restore it from git, or measure the point again") from error
    if hashlib.sha256(data).hexdigest() != record.measurement.requests_sha256:
        raise RecordError(f"{path} was changed after it was recorded: restore it from git")
    try:
        return _parse(data).copy(deep=False)
    except (ValueError, OSError) as error:  # pyarrow's errors are one or the other
        raise RecordError(f"{path} is no Parquet file ({error}): restore it from git") from error


@lru_cache(maxsize=2048)
def _parse(data: bytes) -> pd.DataFrame:
    # A chapter asks for the same rows a dozen times, and reading Parquet is most of what it does.
    rows = pd.read_parquet(io.BytesIO(data), **packfile.ALONE)
    if tuple(rows.columns) != REQUEST_COLUMNS:
        raise ValueError(f"columns are {list(rows.columns)}, want {list(REQUEST_COLUMNS)}")
    return rows


def pack(hardware_id: str | None = None) -> list[Path]:
    """Pack the records of one machine (default: all) that have files of their own; returns the new packs.

    What is removed has first been read back from its pack and compared.

    Raises:
        RecordError: if a record is damaged or says something else than its packed twin, or the disk is full.
    """
    made = []
    for where in folders(hardware_id):
        if any(where.glob("*.json")):
            with _alone_in(where):
                made += _pack(where)
    return made


def drop(run_ids: Collection[str]) -> list[Path]:
    """Take records out of `results/`: their packs are written again without them. Returns the files removed.

    Whether they may go, and whether history keeps them, is the caller's to know.
    """
    removed = []
    for where in folders():
        with _alone_in(where):
            for held in packfile.packs(where):
                if not held.documents.keys().isdisjoint(run_ids):
                    removed += _without(held, run_ids)
    return removed


def _pack(where: Path) -> list[Path]:
    """One folder's turn. A record that a killed packing left in both places is only removed."""
    singles = {path: (read(path), json.loads(path.read_bytes())) for path in sorted(where.glob("*.json"))}
    held = {run_id: one for one in packfile.packs(where) for run_id in one.documents}
    for path, (record, document) in singles.items():
        twin = held.get(record.run_id)
        if twin and twin.documents[record.run_id] != document:
            raise RecordError(f"{path} says something else than {twin.path}: remove the wrong one")
    new = [(record, document) for record, document in singles.values() if record.run_id not in held]
    rows = {r.run_id: requests(r) for r, _ in new if isinstance(r, RunRecord) and r.measurement}
    made = [_written(where, [document for _, document in new], rows)] if new else []
    for path, (record, _) in singles.items():
        # Rows first: a record without its rows, but with a packed twin, is found and removed next time.
        path.with_name(f"{record.run_id}.parquet").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return made


def _written(where: Path, documents: list[dict[str, Any]], rows: dict[str, pd.DataFrame]) -> Path:
    """Write a pack, and believe it only after reading it back."""
    path = packfile.write(where, documents, rows)
    written = packfile.read(path)
    if list(written.documents.values()) != documents or not all(
        packfile.same(frame, written.requests(run_id)) for run_id, frame in rows.items()
    ):
        raise RecordError(f"{path} does not give back what was packed: remove it. Nothing else was removed")
    sync_names(where)
    return path


def _without(held: packfile.Pack, run_ids: Collection[str]) -> list[Path]:
    remaining = {run_id: document for run_id, document in held.documents.items() if run_id not in run_ids}
    if remaining:
        with_rows = filter(held.has_requests, remaining) if held.rows_path else ()
        rows = {run_id: held.requests(run_id) for run_id in with_rows}
        _written(held.path.parent, list(remaining.values()), rows)
    replaced = [path for path in (held.path, held.rows_path) if path]
    for path in replaced:
        path.unlink()
    return replaced


@contextmanager
def _alone_in(where: Path) -> Iterator[None]:
    """Two packings of one folder take turns."""
    handle = os.open(where, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
