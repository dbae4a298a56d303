"""Packs: a kill at any moment loses nothing, an edit is seen, and a pack never changes."""

import gzip
import hashlib
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pandas as pd
import pytest

import factories
from specbook import records
from specbook.errors import RecordError
from specbook.records import packfile
from specbook.records.packfile import same

N = 4


class Killed(BaseException):
    """What the process does not live to handle."""


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def made(first: int = 0, n: int = N) -> list[records.RunRecord]:
    """Records on disk, each in a file of its own; every third one failed and has no rows."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = []
    for i in range(first, first + n):
        point, at = factories.point(restart=i), (start + timedelta(minutes=i)).isoformat()
        if i % 3 == 2:
            record = factories.failed_run(point).model_copy(update={"run_id": f"run-{i}", "started_at": at})
        else:
            record = factories.write_run(point, 10.0 + i, run_id=f"run-{i}", started_at=at)
        records.append(record)
        found.append(record)
    return found


def rows(runs) -> dict[str, pd.DataFrame]:
    return {run.run_id: records.requests(run) for run in runs if run.measurement}


def rows_of_pack(path: Path) -> Path:
    found = packfile.read(path).rows_path
    assert found is not None
    return found


def test_pandas_reads_a_pack_in_one_line(results):
    runs = made()
    (path,) = records.pack()
    table = pd.read_json(path, lines=True)
    assert list(table["run_id"]) == [run.run_id for run in runs]
    assert list(table["key"]) == [run.key for run in runs]
    requests = pd.read_parquet(rows_of_pack(path))
    assert requests.groupby("run_id", sort=False)["output_tokens"].sum().to_dict() == {
        run.run_id: run.measurement.throughput.output_tokens for run in runs if run.measurement
    }


def files(results: Path) -> dict[str, str]:
    found = (path for path in results.rglob("*") if path.is_file())
    return {
        path.relative_to(results).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found
    }


def test_packed_records_read_as_before(results):
    runs = made()
    before = rows(runs)
    (path,) = records.pack()
    assert {results / name for name in files(results)} == {path, rows_of_pack(path)}
    assert records.load() == runs
    assert records.load(chapters=["other"]) == records.load("another-machine") == []
    assert all(same(records.requests(run), before[run.run_id]) for run in runs if run.measurement)
    assert list(records.validate_all()) == [(path, None)] * N


def test_packing_again_changes_no_pack(results):
    runs = made()
    records.pack()
    first = files(results)
    assert records.pack() == []
    assert files(results) == first
    runs += made(first=N)
    records.pack()
    assert first.items() < files(results).items()
    assert records.load() == runs


def test_the_same_records_make_the_same_pack(results):
    made()
    shutil.copytree(results, results.with_name("copy"))
    (path,) = records.pack()
    once = files(results)
    shutil.rmtree(results)
    results.with_name("copy").rename(results)
    assert records.pack() == [path]
    assert files(results) == once


def test_a_packed_run_id_cannot_be_appended_again(results):
    runs = made()
    records.pack()
    with pytest.raises(RecordError, match="append-only"):
        records.append(runs[0])
    assert not list(results.rglob("*.json"))


def kill_at(monkeypatch, moment: int) -> None:
    """From its `moment`-th change to the disk on, this process changes nothing more."""
    calls = count()

    def until_killed(real):
        def change(*arguments, **named):
            if next(calls) >= moment:
                raise Killed
            return real(*arguments, **named)

        return change

    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, until_killed(getattr(os, name)))


@pytest.mark.parametrize("earlier", [0, N], ids=["first pack", "second pack"])
def test_a_kill_at_any_moment_loses_nothing(results, monkeypatch, earlier):
    runs = made(n=earlier)
    records.pack()
    runs += made(first=earlier)
    before, fresh = rows(runs), results.with_name("fresh")
    shutil.copytree(results, fresh)
    for moment in count():
        shutil.rmtree(results)
        shutil.copytree(fresh, results)
        with monkeypatch.context() as patch:
            kill_at(patch, moment)
            try:
                records.pack()
            except Killed:
                survived = False
            else:
                survived = True
        assert records.load() == runs, moment
        assert all(same(records.requests(run), before[run.run_id]) for run in runs if run.measurement), moment
        assert not [
            problem for path, problem in records.validate_all() if problem and "pack-" not in path.name
        ]
        records.pack()
        assert records.load() == runs, moment
        assert [problem for _, problem in records.validate_all()] == [None] * len(runs), moment
        assert not list(results.rglob("*.json")), moment
        if survived:
            break
    assert moment > 10


def test_a_full_disk_leaves_the_single_files(results, monkeypatch):
    runs = made()
    before = files(results)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordError, match="No space left"):
            records.pack()
    assert files(results) == before
    assert records.load() == runs


def test_a_point_measured_while_others_are_packed_stays(results, monkeypatch):
    runs = made()
    write = packfile.write

    def write_slowly(*arguments):
        runs.extend(made(first=N, n=1))
        return write(*arguments)

    monkeypatch.setattr(packfile, "write", write_slowly)
    records.pack()
    assert [path.stem for path in results.rglob("*.json")] == [f"run-{N}"]
    assert records.load() == runs


@pytest.mark.parametrize("which", ["records", "rows"])
def test_an_edited_pack_is_refused(which):
    runs = made()
    (path,) = records.pack()
    records.load()
    edited = path if which == "records" else rows_of_pack(path)
    edited.write_bytes(edited.read_bytes() + b"\0")
    with pytest.raises(RecordError, match="was changed after it was written"):
        [records.requests(run) for run in records.load() if run.measurement]
    problems = [problem for _, problem in records.validate_all() if problem]
    assert problems
    assert all(edited.name in problem and "restore it from git" in problem for problem in problems)
    assert len(problems) == (1 if which == "records" else len(rows_of(runs)))


def rows_of(runs) -> list[str]:
    return [run.run_id for run in runs if run.measurement]


def test_a_pack_without_its_rows_is_named(results):
    runs = made()
    (path,) = records.pack()
    rows_of_pack(path).unlink()
    problems = [problem for _, problem in records.validate_all() if problem]
    assert len(problems) == len(rows_of(runs))
    assert all("is missing: restore it from git" in problem for problem in problems)


def test_rows_that_lost_their_pack_are_named(results):
    made()
    (path,) = records.pack()
    left = rows_of_pack(path)
    path.unlink()
    assert [p for p, problem in records.validate_all() if "belongs to no record" in problem] == [left]


def test_a_pack_that_lacks_rows_of_one_run_is_named(results):
    runs = made()
    (path,) = records.pack()
    found = packfile.read(path)
    whole = rows_of_pack(path)
    assert path == packfile.write(
        path.parent, [*found.documents.values()], {"run-1": found.requests("run-1")}
    )
    whole.unlink()
    problems = [problem for _, problem in records.validate_all() if problem]
    assert len(problems) == len(rows_of(runs)) - 1
    assert all(f"{path} has no requests of run-" in problem for problem in problems)
    with pytest.raises(RecordError, match="has no requests of run-0"):
        records.requests(runs[0])


def test_a_pack_in_the_wrong_folder_is_found(results):
    made()
    (path,) = records.pack()
    path.parent.rename(path.parent.with_name("elsewhere"))
    assert all("wrong folder" in problem for _, problem in records.validate_all())


def test_a_file_that_contradicts_its_pack_stops_packing(results):
    made()
    kept = results.with_name("kept")
    shutil.copytree(results, kept)
    records.pack()
    (single,) = kept.rglob("run-2.json")
    back = results / single.relative_to(kept)
    back.write_text(single.read_text().replace("it crashed", "it was fine"))
    with pytest.raises(RecordError, match="says something else than"):
        records.pack()
    assert back.exists()
    assert [problem for _, problem in records.validate_all() if problem]


def test_damaged_rows_are_never_packed(results):
    made()
    damaged = next(results.rglob("run-0.parquet"))
    damaged.write_bytes(damaged.read_bytes() + b"\0")
    before = files(results)
    with pytest.raises(RecordError, match="was changed after it was recorded"):
        records.pack()
    assert files(results) == before


@pytest.mark.parametrize(
    "data", [b"garbage", *(gzip.compress(data, mtime=0) for data in (b"[]", b'{"run_id": 1}\n{'))]
)
def test_a_pack_of_garbage_with_the_right_name_is_told(results, data):
    digest = hashlib.sha256(data).hexdigest()[: packfile.DIGEST_CHARACTERS]
    folder = results / "cpu-x-2c" / "01_a"
    folder.mkdir(parents=True)
    (folder / f"pack-{digest}{packfile.RECORDS}").write_bytes(data)
    (problem,) = [problem for _, problem in records.validate_all() if problem]
    assert "is no pack" in problem


def test_a_record_that_is_dropped_leaves_alone(results):
    runs = made()
    records.pack()
    removed = records.drop({"run-0", "run-2"})
    kept = [run for run in runs if run.run_id not in {"run-0", "run-2"}]
    assert [path.suffix for path in removed] == [".gz", ".parquet"]
    assert records.load() == kept
    assert [problem for _, problem in records.validate_all()] == [None] * len(kept)
    assert records.drop({"run-0"}) == []
    records.drop({run.run_id for run in kept})
    assert files(results) == {}


def test_a_dropping_that_was_killed_loses_no_other_record(results, monkeypatch):
    runs = made()
    records.pack()
    before, fresh = rows(runs), results.with_name("fresh")
    shutil.copytree(results, fresh)
    kept = [run for run in runs if run.run_id != "run-0"]
    for moment in range(20):
        shutil.rmtree(results)
        shutil.copytree(fresh, results)
        with monkeypatch.context() as patch, suppress(Killed):
            kill_at(patch, moment)
            records.drop({"run-0"})
        assert [run for run in records.load() if run.run_id != "run-0"] == kept
        assert all(same(records.requests(run), before[run.run_id]) for run in kept if run.measurement)
        records.drop({"run-0"})
        assert records.load() == kept
