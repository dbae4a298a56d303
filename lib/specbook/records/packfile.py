"""A pack: finished records of one chapter in one file, their per-request rows in another beside it.

`pack-<digest>.jsonl.gz` holds a record a line, as it was written; `pack-<digest>.<digest>.parquet` has their
rows (see `rows`). pandas reads either by itself. The digests begin the SHA-256 of either file, that of
the records first. A pack never changes, so an edit of either file shows.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from specbook.errors import RecordError
from specbook.records.atomic_files import write_atomically
from specbook.records.rows import Rows, packed

RECORDS = ".jsonl.gz"
DIGEST_CHARACTERS = 16


@dataclass(frozen=True, eq=False)
class Pack:
    """One pack, its first file read and found whole."""

    path: Path
    documents: dict[str, dict[str, Any]]
    """The records as they were written, by run id. Not to be changed."""

    @property
    def rows_path(self) -> Path | None:
        """The file of per-request rows; None where there is none."""
        return next(rows_files(self.path), None)

    def has_requests(self, run_id: str) -> bool:
        """Whether the pack holds rows of this run. Raises as `requests` does."""
        return run_id in self._rows()

    def requests(self, run_id: str) -> pd.DataFrame:
        """One run's rows; RecordError if their file is missing or was changed, or holds none for this run."""
        rows = self._rows()
        if run_id not in rows:
            raise RecordError(f"{self.rows_path} has no requests of {run_id}: restore it from git")
        return rows.of(run_id)

    def _rows(self) -> Rows:
        path = self.rows_path
        if path is None:
            raise RecordError(f"the Parquet file of {self.path} is missing: restore it from git")
        try:
            stat = path.stat()
            return _read_rows(path, stat.st_mtime_ns, stat.st_size)
        except OSError as error:
            raise RecordError(f"{path} cannot be read ({error.strerror}): restore it from git") from error


def packs(folder: Path) -> list[Pack]:
    """The packs of one chapter's folder; RecordError if one was changed after it was written."""
    return [read(path) for path in files(folder)]


def files(folder: Path) -> list[Path]:
    """The first files of a folder's packs, by name."""
    return sorted(folder.glob(f"pack-*{RECORDS}"))


def rows_files(path: Path) -> Iterator[Path]:
    """Parquet files that bear the name of a pack's first file: one, or none."""
    return path.parent.glob(f"{_stem(path)}.*.parquet")


def read(path: Path) -> Pack:
    """Read one pack; again only if its file has changed.

    Raises:
        RecordError: if it cannot be read, or was changed after it was written.
    """
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def write(folder: Path, documents: Sequence[dict[str, Any]], rows: Mapping[str, pd.DataFrame]) -> Path:
    """Put records and the rows of those that have any into a new pack; returns its first file, written last.

    Raises:
        RecordError: if the disk is full or the folder is not writable.
    """
    lines = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in documents)
    data = gzip.compress(lines.encode(), mtime=0)
    path = folder / f"pack-{_digest(data)}{RECORDS}"
    if rows:
        table = packed(rows)
        write_atomically(folder / f"{_stem(path)}.{_digest(table)}.parquet", table)
    write_atomically(path, data)
    return path


def _stem(path: Path) -> str:
    return path.name.removesuffix(RECORDS)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


@lru_cache(maxsize=64)
def _read(path: Path, mtime_ns: int, size: int) -> Pack:
    data = path.read_bytes()
    if f"pack-{_digest(data)}" != _stem(path):
        raise RecordError(f"{path} was changed after it was written: restore it from git")
    try:
        documents = map(json.loads, gzip.decompress(data).decode().splitlines())
        return Pack(path, {document["run_id"]: document for document in documents})
    except (ValueError, LookupError, TypeError, EOFError, gzip.BadGzipFile) as error:
        raise RecordError(f"{path} is no pack ({error}): restore it from git") from error


@lru_cache(maxsize=16)
def _read_rows(path: Path, mtime_ns: int, size: int) -> Rows:
    data = path.read_bytes()
    if path.suffixes[-2] != f".{_digest(data)}":
        raise RecordError(f"{path} was changed after it was written: restore it from git")
    try:
        return Rows(data)
    except (ValueError, LookupError, OSError) as error:  # pyarrow's errors are one of these
        raise RecordError(f"{path} is no Parquet file of rows ({error}): restore it from git") from error
