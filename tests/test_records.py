"""Records on disk: append-only, all or nothing, and never believed when they were touched."""

import errno
import json
import os

import pandas as pd
import pytest

from specbook import records, summaries
from specbook.config import Load, Point, Target, Traffic
from specbook.errors import RecordError
from specbook.hardware import detect
from specbook.provenance import Provenance
from specbook.records import Measurement, RunRecord, ServerCounters, Throughput, Utilisation

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
        "schema_version": 1, "run_id": run_id, "key": POINT.key, "kind": "measured", "status": "failed",
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
        ({"schema_version": 2}, "schema_version"),
        ({"key": "0" * 16}, "not the digest of its point"),
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


def test_load_filters_and_sorts(hardware):
    records.append(good(hardware, "later", started_at="2026-01-02T00:00:00+00:00"))
    records.append(failed(hardware, "earlier"))
    assert [r.run_id for r in records.load()] == ["earlier", "later"]
    assert records.load(chapters=["02_eagle3"]) == []
    assert records.load("another-machine") == []
    assert [r.run_id for r in summaries.latest(records.load())] == ["later"]
