"""Every record under results/ is what it should be; an empty results/ is one too."""

from collections import Counter

import pytest

from specbook import acceptance, records

pytestmark = pytest.mark.usefixtures("project")


def test_every_shipped_record_validates():
    assert [problem for _, problem in records.validate_all() if problem] == []


def test_every_shipped_record_was_measured_and_names_its_weights():
    runs = records.load()
    assert {record.kind for record in runs} <= {"measured"}
    assert all(record.provenance.weights_sha256.get("target") for record in runs)
    assert all(record.provenance.server_command for record in runs if record.status == "ok")


def test_run_ids_are_unique():
    found = Counter(record.run_id for record in [*records.load(), *records.load_lossless()])
    assert [run_id for run_id, times in found.items() if times > 1] == []


def test_every_counter_can_be_true():
    for record in records.load():
        if record.measurement is not None and record.measurement.spec_decode is not None:
            acceptance.check(record.measurement.spec_decode)
