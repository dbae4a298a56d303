"""Checks of everything under `results/`."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from specbook.errors import RecordError
from specbook.records import packfile, store
from specbook.records.lossless import MarginsRecord
from specbook.records.run import RunRecord
from specbook.records.store import AnyRecord

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
CLOCKS_DIFFER = timedelta(days=1)
Contents = dict[Path, tuple[AnyRecord, ...]]
"""File -> the records that it holds."""


def validate_all() -> Iterator[tuple[Path, str | None]]:
    """Each record under `results/` with None, or what is wrong with it or its rows; then rows without one.

    A pack that cannot be read counts once.
    """
    places: dict[str, Path] = {}
    for where in store.folders():
        if not os.access(where, os.R_OK | os.X_OK):  # a listing would be empty, and say nothing
            yield where, f"{where} cannot be read: fix its permissions"
            continue
        singles, packs = Contents(), Contents()
        yield from _read(sorted(where.glob("*.json")), lambda path: (store.read(path),), singles)
        yield from _read(packfile.files(where), store.packed, packs)
        yield from _singles(singles, packs)
        yield from ((path, _problem(path, record)) for path, held in packs.items() for record in held)
        yield from _orphans(where, singles, packs)
        ids = {path.stem for path in singles} | {r.run_id for held in packs.values() for r in held}
        for run_id in sorted(ids):
            if run_id in places:  # within a folder, `_singles` compares a record with its twin
                yield where, f"{run_id} lies in {where} and in {places[run_id]}: remove the wrong one"
            places[run_id] = where


def _read(
    files: Iterable[Path], read: Callable[[Path], tuple[AnyRecord, ...]], contents: Contents
) -> Iterator[tuple[Path, str]]:
    """Put what the files hold into `contents`, nothing of those that cannot be read."""
    for path in files:
        contents[path] = ()
        try:
            contents[path] = read(path)
        except RecordError as error:
            yield path, str(error)


def _singles(singles: Contents, packs: Contents) -> Iterator[tuple[Path, str | None]]:
    packed = {record.run_id: (path, record) for path, held in packs.items() for record in held}
    for path, record in ((path, record) for path, held in singles.items() for record in held):
        pack, twin = packed.get(record.run_id, (None, record))
        if path.stem != record.run_id:
            yield path, f"{path} is the record of {record.run_id}: give it that name again"
        elif twin != record:
            yield path, f"{path} says something else than {pack}: remove the wrong one"
        else:
            yield path, _problem(path, record)


def _problem(path: Path, record: AnyRecord) -> str | None:
    if path.parent != store.folder(record.hardware.id, record.chapter):
        return f"{path} lies in the wrong folder for {record.hardware.id}/{record.chapter}"
    # Margins have the date of their check, and what is imported may be older than this project.
    dated = not isinstance(record, MarginsRecord) and record.kind != "imported"
    if dated and (problem := _impossible_date(record.started_at)):
        return f"{path}: {problem}"
    if not isinstance(record, RunRecord) or record.measurement is None:
        return None
    throughput, server = record.measurement.throughput, record.measurement.server
    if server and throughput.output_tokens != server.generation_tokens:
        return (
            f"{path}: {throughput.output_tokens} output tokens, and the server counted "
            f"{server.generation_tokens}: restore it from git"
        )
    if not math.isclose(
        throughput.output_tokens_per_s * throughput.duration_s, throughput.output_tokens, rel_tol=1e-3
    ):
        return (
            f"{path}: {throughput.output_tokens_per_s:g} tokens/s for {throughput.duration_s:g} s are not "
            f"{throughput.output_tokens} tokens: restore it from git"
        )
    try:
        return _rows(path, record)
    except RecordError as error:
        return str(error)


def _impossible_date(text: str) -> str | None:
    try:
        started = datetime.fromisoformat(text)
    except ValueError:
        return f"started_at {text!r} is no date: restore it from git"
    if started.tzinfo is None or started.utcoffset():
        return f"started_at {text!r} is not UTC: restore it from git"
    if not FIRST <= started <= datetime.now(UTC) + CLOCKS_DIFFER:
        return f"started_at {text!r} is before this project or in the future: restore it, or set the clock"
    return None


def _rows(path: Path, record: RunRecord) -> str | None:
    if path.suffix != ".json":
        # A pack's digest answers for each row: thousands of runs need not be taken apart.
        held = packfile.read(path).has_requests(record.run_id)
        return None if held else f"{path} has no requests of {record.run_id}: restore it from git"
    rows, throughput = store.requests(record), record.measurement.throughput
    counted = (len(rows), int(rows["output_tokens"].sum()))
    stated = (throughput.completed + throughput.failed, throughput.output_tokens)
    if counted == stated:
        return None
    return (
        f"{path} says {stated[0]} requests and {stated[1]} tokens, its rows say {counted[0]} and "
        f"{counted[1]}: restore it from git"
    )


def _orphans(where: Path, singles: Contents, packs: Contents) -> Iterator[tuple[Path, str]]:
    runs = [r for held in singles.values() for r in held if isinstance(r, RunRecord) and r.measurement]
    claimed = {where / run.measurement.requests_file for run in runs}
    claimed |= {path.with_suffix(".parquet") for path in singles}
    claimed.update(*map(packfile.rows_files, packs))
    for path in sorted({*where.glob("*.parquet")} - claimed):
        yield path, f"{path} belongs to no record, so nothing reads it: remove it, or restore its record"
