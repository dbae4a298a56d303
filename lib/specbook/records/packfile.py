"""A pack: finished records of one chapter in one file, their per-request rows in another beside it.

`pack-<digest>.jsonl` holds a line that says what the pack is, then the records, with what is the same said
once (see `once`); `pack-<digest>.parquet` their rows (see `rows`). The name is the digest of the first file,
and that holds the digest of the second: a pack is never changed, and an edit of either file is seen.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from specbook.errors import RecordError
from specbook.records import once
from specbook.records.disk import write_atomically
from specbook.records.rows import Rows, packed

VERSION = 1
DIGEST_CHARACTERS = 16


@dataclass(frozen=True, eq=False)
class Pack:
    """One pack, its first file read and found whole."""

    path: Path
    rows_sha256: str | None
    """Of the Parquet file; None if no record has rows."""
    documents: dict[str, dict[str, Any]]
    """The records as they were written, by run id. Not to be changed."""

    @property
    def rows_path(self) -> Path:
        """The file of per-request rows."""
        return self.path.with_suffix(".parquet")

    def has_requests(self, run_id: str) -> bool:
        """Whether the pack holds rows of this run. Raises as `requests` does."""
        rows = self._rows()
        return rows is not None and run_id in rows

    def requests(self, run_id: str) -> pd.DataFrame:
        """One run's rows.

        Raises:
            RecordError: if the rows' file is missing or was changed, or holds none for this run.
        """
        rows = self._rows()
        if rows is None or run_id not in rows:
            raise RecordError(f"{self.rows_path} has no requests of {run_id}: restore it from git")
        return rows.of(run_id)

    def _rows(self) -> Rows | None:
        if self.rows_sha256 is None:
            return None
        try:
            found = self.rows_path.stat()
        except OSError as error:
            raise RecordError(f"{self.rows_path} is missing: restore it from git") from error
        return _read_rows(self.rows_path, self.rows_sha256, found.st_mtime_ns, found.st_size)


def packs(folder: Path) -> list[Pack]:
    """The packs of one chapter's folder.

    Raises:
        RecordError: if one was changed after it was written.
    """
    return [read(path) for path in files(folder)]


def files(folder: Path) -> list[Path]:
    """The first files of a folder's packs, by name."""
    return sorted(folder.glob("pack-*.jsonl"))


def read(path: Path) -> Pack:
    """Read one pack; again only if its file has changed.

    Raises:
        RecordError: if it cannot be read, or was changed after it was written.
    """
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def write(folder: Path, documents: Sequence[dict[str, Any]], rows: Mapping[str, pd.DataFrame]) -> Path:
    """Put records and the rows of those that have any into a new pack; returns its first file, written last.

    Raises:
        RecordError: if the disk is full or the folder is not writable.
    """
    table = packed(rows) if rows else None
    head = {
        "pack": VERSION, "records": len(documents), "rows": sum(map(len, rows.values())),
        "clocks": "whole microseconds", "rows_sha256": hashlib.sha256(table).hexdigest() if table else None,
    }  # fmt: skip
    data = ("\n".join([json.dumps(head), *once.folded(documents)]) + "\n").encode()
    path = folder / f"pack-{_digest(data)}.jsonl"
    if table:
        write_atomically(path.with_suffix(".parquet"), table)
    write_atomically(path, data)
    return path


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


@lru_cache(maxsize=64)
def _read(path: Path, mtime_ns: int, size: int) -> Pack:
    data = path.read_bytes()
    if f"pack-{_digest(data)}" != path.stem:
        raise RecordError(f"{path} was changed after it was written: restore it from git")
    try:
        return _parsed(path, data)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{path} is no pack ({error}): restore it from git") from error


def _parsed(path: Path, data: bytes) -> Pack:
    head, *lines = data.decode().removesuffix("\n").split("\n")
    said = json.loads(head)
    if said["pack"] != VERSION:
        raise RecordError(
            f"{path} is of version {said['pack']}, this specbook reads {VERSION}: use a newer one"
        )
    documents = {document["run_id"]: document for document in once.unfolded(lines)}
    return Pack(path, said["rows_sha256"], documents)


@lru_cache(maxsize=16)
def _read_rows(path: Path, sha256: str, mtime_ns: int, size: int) -> Rows:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): restore it from git") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise RecordError(f"{path} was changed after it was written: restore it from git")
    try:
        return Rows(data)
    except (ValueError, LookupError, OSError) as error:  # pyarrow's errors are one of these
        raise RecordError(f"{path} is no Parquet file of rows ({error}): restore it from git") from error
