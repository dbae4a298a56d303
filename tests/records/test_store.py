"""Records on disk: append-only, all or nothing, and never believed when they were touched."""

import errno
import hashlib
import json
import os
import re

import pandas as pd
import pytest

from specbook import records
from specbook.bench.hardware import detect
from specbook.config.schema import Load, Point, Target, Traffic
from specbook.errors import RecordError
from specbook.records import run_set
from specbook.records.run import Measurement, Provenance, RunRecord, ServerCounters, Throughput, Utilisation

POINT = Point(
    chapter="01_baseline",
    target=Target(name="tiny", model="org/tiny", max_model_len=512),
    speculation=None,
    traffic=Traffic(domain="code"),
    load=Load(concurrency=1, num_requests=2, num_warmups=0),
    restart=0,
)
ROWS = pd.DataFrame(
    [
        ("p0", 0.0, 0.1, [0.01, 0.02], 0.13, 7, 3, "a b c", None),
        ("p1", 0.2, 0.1, [], 0.1, 5, 1, "ü", None),
    ],
    columns=list(records.REQUEST_COLUMNS),
)
ORIGIN = Provenance(
    git_sha=None, git_dirty=None, versions={}, weights_sha256={"target": "aa"}, prompts_sha256="",
    server_command=(), server_env={}, bench_command=(), load_average_1min=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture(scope="module")
def hardware():
    return detect()


def failed(hardware, run_id="bad-1", **changes):
    fields = {
        "run_id": run_id, "key": POINT.key, "round": {"id": "r"}, "kind": "measured", "status": "failed",
        "reason": "engine died", "started_at": "2026-01-01T00:00:00+00:00", "point": POINT,
        "hardware": hardware, "provenance": ORIGIN, "measurement": None,
    }  # fmt: skip
    return RunRecord(**fields | changes)


def good(hardware, run_id="good-1", **changes):
    path = records.folder(hardware.id, POINT.chapter) / f"{run_id}.parquet"
    digest = records.write_requests(path, ROWS)
    measurement = Measurement(
        throughput=Throughput(duration_s=0.5, completed=2, failed=0, output_tokens=4, output_tokens_per_s=8),
        server=ServerCounters(
            prompt_tokens=12, generation_tokens=4, requests_finished=2, prefix_cache_hits=0, preemptions=0,
            queue_time_s=0.0,
        ),
        spec_decode=None,
        utilisation=Utilisation(
            samples=1, engine_cpu_cores=1.0, client_cpu_cores=0.1, engine_rss_bytes=1, gpu_utilisation=None,
            gpu_memory_bytes=None,
        ),
        requests_file=path.name,
        requests_sha256=digest,
    )  # fmt: skip
    return failed(hardware, run_id, status="ok", reason=None, measurement=measurement, **changes)


def test_a_record_comes_back_as_it_went(hardware):
    record = good(hardware)
    path = records.append(record)
    assert records.read(path) == record
    pd.testing.assert_frame_equal(
        records.requests(record).drop(columns=["itl_s", "error"]), ROWS.drop(columns=["itl_s", "error"])
    )
    assert [list(gaps) for gaps in records.requests(record).itl_s] == [[0.01, 0.02], []]
    assert list(records.validate_all()) == [(path, None)]


def test_a_record_is_never_overwritten(hardware):
    path = records.append(failed(hardware))
    before = path.read_bytes()
    with pytest.raises(RecordError, match="append-only"):
        records.append(failed(hardware, reason="another"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there_and_no_half_file(hardware, results, monkeypatch, call):
    first = records.append(failed(hardware))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(RecordError, match=r"No space left on device\. Records on disk before it are safe"):
        records.append(failed(hardware, "bad-2"))
    with pytest.raises(RecordError, match="No space left"):
        records.write_requests(first.with_name("rows.parquet"), ROWS)
    assert [p for p in results.rglob("*") if p.is_file()] == [first]
    assert records.read(first).run_id == "bad-1"


def test_an_interrupt_while_writing_leaves_no_half_file(hardware, results, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        records.append(failed(hardware))
    assert not [p for p in results.rglob("*") if p.is_file()]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"hello": "world"}', "null", "\xff"])
def test_what_is_no_record_is_refused_with_its_path(hardware, text):
    path = records.append(failed(hardware))
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError, match=r"bad-1\.json is not a record"):
        records.read(path)
    assert [(p, problem is not None) for p, problem in records.validate_all()] == [(path, True)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"surprise": 1}, "surprise"),
        ({"schema_version": 3}, "schema_version"),
        ({"key": "v2-" + "0" * 16}, "not the digest of its point"),
        ({"status": "ok"}, "contradicts"),
        ({"reason": None}, "has a reason"),
        ({"kind": "guessed"}, "kind"),
        ({"run_id": "../../etc"}, "run_id"),
    ],
)
def test_a_changed_field_is_refused(hardware, change, words):
    path = records.append(failed(hardware))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordError, match=words):
        records.read(path)


def test_a_changed_point_no_longer_fits_its_key(hardware):
    path = records.append(failed(hardware))
    path.write_text(path.read_text().replace('"max_tokens": 128', '"max_tokens": 64'))
    with pytest.raises(RecordError, match="not the digest"):
        records.read(path)


def test_tampered_and_missing_rows_are_refused(hardware):
    record = good(hardware)
    path = records.append(record)
    rows = path.with_suffix(".parquet")
    rows.write_bytes(rows.read_bytes() + b"\0")
    with pytest.raises(RecordError, match="was changed after it was recorded"):
        records.requests(record)
    rows.unlink()
    with pytest.raises(RecordError, match="is missing"):
        records.requests(record)
    assert [problem is not None for _, problem in records.validate_all()] == [True]


def test_rows_need_exactly_the_declared_columns(tmp_path):
    with pytest.raises(RecordError, match="columns"):
        records.write_requests(tmp_path / "rows.parquet", ROWS.drop(columns="text"))


def test_a_failed_record_has_no_rows(hardware):
    with pytest.raises(RecordError, match="engine died"):
        records.requests(failed(hardware))


def test_a_record_in_the_wrong_folder_is_found(hardware, results):
    path = records.append(failed(hardware))
    moved = results / hardware.id / "other" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    assert "wrong folder" in next(records.validate_all())[1]


def edited(path, *, where, **changes):
    """The record at `path` with other figures in one of its parts, written by hand."""
    body = json.loads(path.read_text())
    part = body
    for name in where:
        part = part[name]
    part |= changes
    path.write_text(json.dumps(body))
    return path


def problem():
    """The one thing that is wrong under results/."""
    (found,) = [problem for _, problem in records.validate_all() if problem]
    return found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_tokens_per_s": 80.0}, r"80 tokens/s for 0\.5 s are not 4 tokens"),
        ({"output_tokens": 40, "output_tokens_per_s": 80.0}, "40 output tokens, and the server counted 4"),
        ({"completed": 3}, "says 3 requests and 4 tokens, its rows say 2 and 4"),
    ],
)
def test_edited_figures_do_not_fit_each_other_or_their_rows(hardware, changes, words):
    edited(records.append(good(hardware)), where=("measurement", "throughput"), **changes)
    assert re.search(words, problem())


@pytest.mark.parametrize(
    "date", ["yesterday", "2026-01-01T00:00:00", "2026-01-01T00:00:00+02:00", "1970-01-01T00:00:00+00:00",
             "2999-01-01T00:00:00+00:00"],
)  # fmt: skip
def test_an_impossible_date_is_found(hardware, date):
    edited(records.append(failed(hardware)), where=(), started_at=date)
    assert "started_at" in problem()


def test_doubled_run_ids_and_renamed_files_are_reported(hardware, results):
    path = records.append(failed(hardware))
    other = edited(path, where=("point",), chapter="other").rename(path.with_name("moved.json"))
    assert "moved.json is the record of bad-1: give it that name again" in problem_with(other)
    (results / hardware.id / "other").mkdir()
    other.rename(results / hardware.id / "other" / "bad-1.json")
    records.append(failed(hardware))
    assert "bad-1 lies in" in problem()


def problem_with(path):
    return "; ".join(text for where, text in records.validate_all() if text and where == path)


def test_a_folder_that_may_not_be_read_is_no_empty_folder(hardware, monkeypatch):
    path = records.append(failed(hardware))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert problem() == f"{path.parent} cannot be read: fix its permissions"


def test_rows_that_may_not_be_read_are_not_called_missing(hardware):
    record = good(hardware)
    rows = records.append(record).with_suffix(".parquet")
    rows.unlink()
    rows.mkdir()
    with pytest.raises(RecordError, match=r"cannot be read \(Is a directory\)"):
        records.requests(record)


@pytest.mark.parametrize("data", [b"garbage", b"", b"PAR1 no PAR1"])
def test_garbage_with_the_right_digest_is_reported(hardware, data):
    path = records.append(good(hardware))
    path.with_suffix(".parquet").write_bytes(data)
    edited(path, where=("measurement",), requests_sha256=hashlib.sha256(data).hexdigest())
    assert "is no Parquet file" in problem()


def test_a_parquet_of_something_else_is_told(hardware):
    path = records.append(good(hardware))
    data = pd.DataFrame({"a": [1]}).to_parquet()
    path.with_suffix(".parquet").write_bytes(data)
    edited(path, where=("measurement",), requests_sha256=hashlib.sha256(data).hexdigest())
    assert "columns are ['a']" in problem()


def test_unwritable_results_are_refused_before_measuring(results):
    records.check_writable("cpu-x-2c")
    assert not [path for path in results.rglob("*") if path.is_file()]
    (results / "cuda-x").write_text("a file")
    with pytest.raises(RecordError, match=r"cannot write .*cuda-x"):
        records.check_writable("cuda-x")


def test_rows_without_a_record_are_found(hardware):
    path = records.append(good(hardware))
    orphan = path.with_name("killed-1.parquet")
    records.write_requests(orphan, ROWS)
    assert next(records.validate_all()) == (path, None)
    (found,) = [(p, problem) for p, problem in records.validate_all() if problem]
    assert found[0] == orphan
    assert "belongs to no record" in found[1]


def test_rows_of_a_record_that_cannot_be_read_are_told_once(hardware):
    path = records.append(good(hardware))
    path.write_text("{")
    assert [p for p, problem in records.validate_all() if problem] == [path]


def test_load_filters_and_sorts(hardware):
    records.append(good(hardware, "later", started_at="2026-01-02T00:00:00+00:00"))
    records.append(failed(hardware, "earlier"))
    assert [r.run_id for r in records.load()] == ["earlier", "later"]
    assert records.load(chapters=["02_eagle3"]) == []
    assert records.load("another-machine") == []
    assert [r.run_id for r in run_set.current(records.load())] == ["later"]
