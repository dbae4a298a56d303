"""Every record under results/ is what it should be; an empty results/ is one too."""

import re
from collections import Counter

import pytest

from specbook import paths, records
from specbook.analysis import acceptance
from specbook.records import packfile

BYTES_PER_RECORD = 30_000_000 / 3_000
"""What a clone has to fetch: all chapters together are about 3,000 records, and stay under 30 MB."""

pytestmark = pytest.mark.usefixtures("project")


def test_every_shipped_record_validates():
    assert [problem for _, problem in records.validate_all() if problem] == []


def test_every_shipped_record_names_its_weights():
    runs = records.load()
    assert {record.kind for record in runs} <= {"measured"}
    assert all(record.provenance.weights_sha256.get("target") for record in runs)
    assert all(record.provenance.server_command for record in runs if record.status == "ok")


def test_eight_chapters_would_fit():
    packs = [packfile.read(path) for path in paths.results_dir().glob(f"*/*/pack-*{packfile.RECORDS}")]
    files = [path for pack in packs for path in (pack.path, pack.rows_path) if path]
    held = sum(len(pack.documents) for pack in packs)
    assert sum(path.stat().st_size for path in files) <= BYTES_PER_RECORD * held


def test_the_readme_reads_records_with_pandas_alone(monkeypatch):
    monkeypatch.chdir(paths.root())
    example = re.search(r"```python\n(.*?)```", (paths.root() / "README.md").read_text(), re.DOTALL)[1]
    found = {}
    exec(example, found)
    said = {
        run["run_id"]: run["measurement"] for run in found["runs"].to_dict("records") if run["measurement"]
    }
    assert said
    assert found["tokens"].to_dict() == {
        run_id: measured["throughput"]["output_tokens"] for run_id, measured in said.items()
    }


def test_run_ids_are_unique():
    found = Counter(record.run_id for record in [*records.load(), *records.load_lossless()])
    assert [run_id for run_id, times in found.items() if times > 1] == []


def test_every_counter_can_be_true():
    for record in records.load():
        if record.measurement is not None and record.measurement.spec_decode is not None:
            acceptance.check(record.measurement.spec_decode)


def test_the_method_page_says_if_restarts_share_arrivals():
    seeds = Counter()
    for record in records.load():
        if record.status == "ok" and record.point.load.concurrency is None:
            argv = record.provenance.bench_command
            seeds[argv[argv.index("--seed") + 1]] += 1
    said = "repeat one draw of Poisson arrivals" in (paths.root() / "book" / "method.md").read_text()
    assert said == (len(seeds) == 1)
