"""From one file a record to packs, and the only way for a record to leave `results/`.

What is removed has first been read back from its pack and compared. A kill at any moment leaves each record
in its own file, in a pack, or in both.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from specbook.errors import RecordError
from specbook.records import packfile, store
from specbook.records.atomic_files import sync_names
from specbook.records.packfile import same
from specbook.records.run import RunRecord
from specbook.records.store import AnyRecord


class _Single(NamedTuple):
    """A record that has a file of its own."""

    path: Path
    record: AnyRecord
    document: dict[str, Any]

    @property
    def rows_path(self) -> Path | None:
        measured = self.record.measurement if isinstance(self.record, RunRecord) else None
        return self.path.with_name(measured.requests_file) if measured else None


def pack(hardware_id: str | None = None) -> list[Path]:
    """Pack the records of one machine (default: all) that have files of their own; returns the new packs.

    Raises:
        RecordError: if a record is damaged or says something else than its packed twin, or the disk is full.
    """
    made = []
    for where in store.folders(hardware_id):
        if any(where.glob("*.json")):
            with _alone_in(where):
                made += _pack(where)
    return made


def drop(run_ids: Collection[str]) -> list[Path]:
    """Take records out of `results/`: their packs are written again without them. Returns the files removed.

    Whether they may go, and whether history keeps them, is the caller's to know.
    """
    removed = []
    for where in store.folders():
        with _alone_in(where):
            for held in packfile.packs(where):
                if not held.documents.keys().isdisjoint(run_ids):
                    removed += _without(held, run_ids)
    return removed


def _pack(where: Path) -> list[Path]:
    """One folder's turn. A record that a killed packing left in both places is only removed."""
    singles = [
        _Single(path, store.read(path), json.loads(path.read_bytes()))
        for path in sorted(where.glob("*.json"))
    ]
    held = {run_id: pack for pack in packfile.packs(where) for run_id in pack.documents}
    for one in singles:
        twin = held.get(one.record.run_id)
        if twin and twin.documents[one.record.run_id] != one.document:
            raise RecordError(f"{one.path} says something else than {twin.path}: remove the wrong one")
    new = [one for one in singles if one.record.run_id not in held]
    rows = {one.record.run_id: store.requests(one.record) for one in new if one.rows_path}
    made = [_written(where, [one.document for one in new], rows)] if new else []
    for one in singles:
        # Rows first: a record without its rows, but with a packed twin, is found and removed next time.
        for path in filter(None, (one.rows_path, one.path)):
            path.unlink(missing_ok=True)
    return made


def _written(where: Path, documents: list[dict[str, Any]], rows: dict[str, pd.DataFrame]) -> Path:
    """Write a pack, and believe it only after reading it back."""
    path = packfile.write(where, documents, rows)
    written = packfile.read(path)
    if list(written.documents.values()) != documents or not all(
        same(frame, written.requests(run_id)) for run_id, frame in rows.items()
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
