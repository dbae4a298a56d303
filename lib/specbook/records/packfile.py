"""A pack: finished records of one chapter in one file, their per-request rows in another beside it.

`pack-<digest>.jsonl.gz` holds a record a line, as it was written; `pack-<digest>.<digest>.parquet` has their
rows, small enough for git. The digests begin the SHA-256 of either file, that of the records first. A pack
never changes, so an edit of either file shows.

Clocks of rows are whole microseconds (`start_us`, `itl_us`, ...): the load generator's event loop is no
better. Each distinct answer is stored once. A row says its run, so pandas, or any reader, can use either file
by itself.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from specbook.errors import RecordError
from specbook.records.atomic_files import write_atomically
from specbook.records.run import REQUEST_COLUMNS

RECORDS = ".jsonl.gz"
DIGEST_CHARACTERS = 16
ALONE = {"use_threads": False, "pre_buffer": False}
"""How Parquet is read: threads of Arrow that hold Python buffers when Python ends can abort the process."""
PRECISION_S = 1e-6
CLOCKS = tuple(name for name in REQUEST_COLUMNS if name.endswith("_s"))
LISTS = ("itl_s",)
COMPRESSION_LEVEL = 19
DICTIONARY_BYTES = 1 << 28
"""Past the usual limit of 1 MB each answer would be written out again."""


class Rows:
    """What `packed` wrote, read back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        ids = pq.read_table(io.BytesIO(data), columns=["run_id"], **ALONE)["run_id"].to_numpy()
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        self._places = dict(zip(ids[starts], zip(starts, [*starts[1:], len(ids)], strict=True), strict=True))
        self._cut: dict[str, pd.DataFrame] = {}  # a chapter asks for the same rows a dozen times

    @cached_property
    def _frame(self) -> pd.DataFrame:
        # Only when rows are asked for: to say which runs have any, it need not be read.
        table = pq.read_table(io.BytesIO(self._data), **ALONE)
        return pd.DataFrame({name: _values(name, table[_name(name)]) for name in REQUEST_COLUMNS})

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._places

    def of(self, run_id: str) -> pd.DataFrame:
        """One run's rows, columns REQUEST_COLUMNS; KeyError if it has none."""
        if run_id not in self._cut:
            start, end = self._places[run_id]
            self._cut[run_id] = self._frame.iloc[start:end].reset_index(drop=True)
        return self._cut[run_id].copy(deep=False)


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


def packed(rows: Mapping[str, pd.DataFrame]) -> bytes:
    """One Parquet file of these rows (columns REQUEST_COLUMNS), by run id, in the order given."""
    together = pd.concat([frame.assign(run_id=run_id) for run_id, frame in rows.items()], ignore_index=True)
    columns = {"run_id": pa.array(together["run_id"], pa.string())}
    columns |= {_name(name): _column(name, together[name]) for name in REQUEST_COLUMNS}
    split = [f"{_name(name)}.list.element" if name in LISTS else _name(name) for name in CLOCKS]
    file = io.BytesIO()
    pq.write_table(
        pa.table(columns), file, compression="zstd", compression_level=COMPRESSION_LEVEL,
        row_group_size=len(together), dictionary_pagesize_limit=DICTIONARY_BYTES,
        use_dictionary=[name for name in columns if not name.endswith("_us")],
        # Byte by byte: the high bytes of a clock are nearly always the same, and then cost nothing.
        column_encoding=dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
    )  # fmt: skip
    return file.getvalue()


def same(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether two frames of REQUEST_COLUMNS say the same, their clocks to the microsecond."""
    if len(a) != len(b) or list(map(len, a["itl_s"])) != list(map(len, b["itl_s"])):
        return False
    clocks = (np.allclose(_flat(a[n]), _flat(b[n]), rtol=0, atol=PRECISION_S, equal_nan=True) for n in CLOCKS)
    others = (a[n].astype(object).where(a[n].notna(), None).tolist()
              == b[n].astype(object).where(b[n].notna(), None).tolist()
              for n in REQUEST_COLUMNS if n not in CLOCKS)  # fmt: skip
    return all(clocks) and all(others)


def _name(column: str) -> str:
    return f"{column.removesuffix('_s')}_us" if column in CLOCKS else column


def _flat(column: pd.Series) -> np.ndarray:
    if column.name not in LISTS:
        return column.to_numpy(dtype=float)
    return np.concatenate([np.asarray(values, dtype=float) for values in column] or [[]])


def _column(name: str, values: pd.Series) -> pa.Array:
    if name in CLOCKS:
        whole = pa.array(np.rint(_flat(values) / PRECISION_S), from_pandas=True).cast(pa.int64())
        if name not in LISTS:
            return whole
        ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), whole)
    array = pa.array(values, from_pandas=True)
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _values(name: str, column: pa.ChunkedArray) -> Any:
    if name in LISTS:
        lists = column.combine_chunks()
        # Divided, not multiplied: only so is 13 us the same float as 0.000013.
        gaps, ends = lists.values.to_numpy() / 1e6, lists.offsets.to_numpy()
        cells = np.empty(len(lists), dtype=object)
        cells[:] = [gaps[a:b] for a, b in pairwise(ends)]
        return cells
    return column.to_pandas() / 1e6 if name in CLOCKS else column.to_pandas()
