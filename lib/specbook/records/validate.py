"""Checks of everything under `results/`."""

import math
import os
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from specbook.errors import RecordError
from specbook.records import packfile, store
from specbook.records.lossless import MarginsRecord
from specbook.records.run import Measurement, RunRecord
from specbook.records.store import AnyRecord

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
CLOCKS_DIFFER = timedelta(days=1)


def validate_all() -> Iterator[tuple[Path, str | None]]:
    """Each record under `results/` with None, or what is wrong with it or its rows; then rows without one.

    A pack that cannot be read counts once.
    """
    places: dict[str, Path] = {}
    for where in store.folders():
        if not os.access(where, os.R_OK | os.X_OK):  # a listing would be empty, and say nothing
            yield where, f"{where} cannot be read: fix its permissions"
            continue
        yield from _singles(where)
        yield from _packs(where)
        yield from _orphans(where)
        yield from _twice(where, places)


def _twice(where: Path, places: dict[str, Path]) -> Iterator[tuple[Path, str | None]]:
    """Run ids that another folder has too; within one, `_singles` compares a record with its twin."""
    ids = {path.stem for path in where.glob("*.json")}
    for run_id in sorted(ids.union(*map(_ids, packfile.files(where)))):
        if run_id in places:
            yield where, f"{run_id} lies in {where} and in {places[run_id]}: remove the wrong one"
        places[run_id] = where


def _singles(where: Path) -> Iterator[tuple[Path, str | None]]:
    packed = {run_id: path for path in packfile.files(where) for run_id in _ids(path)}
    for path in sorted(where.glob("*.json")):
        try:
            record = store.read(path)
        except RecordError as error:
            yield path, str(error)
            continue
        twin = packed.get(record.run_id)
        if path.stem != record.run_id:
            yield path, f"{path} is the record of {record.run_id}: give it that name again"
        elif twin and record not in store.packed(twin):
            yield path, f"{path} says something else than {twin}: remove the wrong one"
        else:
            yield path, _problem(path, record)


def _ids(path: Path) -> Collection[str]:
    try:
        return {record.run_id for record in store.packed(path)}
    except RecordError:
        return ()  # `_packs` reports it


def _packs(where: Path) -> Iterator[tuple[Path, str | None]]:
    for path in packfile.files(where):
        try:
            contents = store.packed(path)
        except RecordError as error:
            yield path, str(error)
        else:
            yield from ((path, _problem(path, record)) for record in contents)


def _problem(path: Path, record: AnyRecord) -> str | None:
    if path.parent != store.folder(record.hardware.id, record.chapter):
        return f"{path} lies in the wrong folder for {record.hardware.id}/{record.chapter}"
    # Margins have the date of their check, and what is imported may be older than this project.
    dated = not isinstance(record, MarginsRecord) and record.kind != "imported"
    if dated and (problem := _impossible_date(record.started_at)):
        return f"{path}: {problem}"
    try:
        if isinstance(record, RunRecord) and record.measurement is not None:
            _agrees(path, record.measurement)
            _rows(path, record)
    except RecordError as error:
        return str(error)
    return None


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


def _agrees(path: Path, measurement: Measurement) -> None:
    """The figures of a window follow from each other."""
    throughput, server = measurement.throughput, measurement.server
    if server and throughput.output_tokens != server.generation_tokens:
        raise RecordError(
            f"{path}: {throughput.output_tokens} output tokens, and the server counted "
            f"{server.generation_tokens}: restore it from git"
        )
    if not math.isclose(
        throughput.output_tokens_per_s * throughput.duration_s, throughput.output_tokens, rel_tol=1e-3
    ):
        raise RecordError(
            f"{path}: {throughput.output_tokens_per_s:g} tokens/s for {throughput.duration_s:g} s are not "
            f"{throughput.output_tokens} tokens: restore it from git"
        )


def _rows(path: Path, record: RunRecord) -> None:
    if path.suffix == ".json":
        rows, throughput = store.requests(record), record.measurement.throughput
        counted = (len(rows), int(rows["output_tokens"].sum()))
        stated = (throughput.completed + throughput.failed, throughput.output_tokens)
        if counted != stated:
            raise RecordError(
                f"{path} says {stated[0]} requests and {stated[1]} tokens, its rows say {counted[0]} and "
                f"{counted[1]}: restore it from git"
            )
    # A pack's digest answers for each row: thousands of runs need not be taken apart.
    elif not packfile.read(path).has_requests(record.run_id):
        raise RecordError(f"{path} has no requests of {record.run_id}: restore it from git")


def _orphans(where: Path) -> Iterator[tuple[Path, str | None]]:
    for path in sorted({*where.glob("*.parquet")} - {*_claimed(where)}):
        yield path, f"{path} belongs to no record, so nothing reads it: remove it, or restore its record"


def _claimed(where: Path) -> Iterable[Path]:
    yield from (path.with_suffix(".parquet") for path in where.glob("*.json"))
    for path in packfile.files(where):
        yield from packfile.rows_files(path)
    for path in where.glob("*.json"):
        try:
            record = store.read(path)
        except RecordError:
            continue
        if isinstance(record, RunRecord) and record.measurement is not None:
            yield where / record.measurement.requests_file
