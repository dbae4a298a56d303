"""The model cache: half-written is never complete, and whoever waits is told for what."""

import json

import httpx
import pytest
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from specbook.deploy import fetch
from specbook.errors import ConfigError

ANSWER = httpx.Response(404, request=httpx.Request("GET", "https://hub.invalid"))
TARGET, DRAFT = "a" * 40, "b" * 40
MODELS = {
    "TARGET_REPO": "org/target",
    "TARGET_REVISION": TARGET,
    "DRAFT_REPO": "org/draft",
    "DRAFT_REVISION": DRAFT,
}


def writes_files(repository, revision, folder):
    (folder / "model.safetensors").write_bytes(repository.encode())
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").touch()


def fails(repository, revision, folder):
    (folder / "model.safetensors").write_bytes(b"half")
    raise KeyboardInterrupt


def test_what_is_fetched_is_complete_and_fetched_once(tmp_path):
    assert fetch.fetch(tmp_path, MODELS, writes_files) == [
        f"org/target at {TARGET}: fetched",
        f"org/draft at {DRAFT}: fetched",
    ]
    assert fetch.fetch(tmp_path, MODELS, fails) == [
        f"org/target at {TARGET}: in the cache",
        f"org/draft at {DRAFT}: in the cache",
    ]
    assert len(fetch.check(tmp_path, MODELS)) == 2


def test_the_marker_holds_digests_of_the_model_alone(tmp_path):
    fetch.fetch(tmp_path, MODELS, writes_files)
    marker = json.loads((tmp_path / TARGET / fetch.MARKER).read_text())
    assert marker == {
        "repository": "org/target",
        "sha256": {"model.safetensors": fetch.sha256(tmp_path / TARGET / "model.safetensors")},
    }


def test_an_interrupted_download_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(tmp_path, MODELS, fails)
    with pytest.raises(ConfigError, match="not in the cache: wait for the Job specbook-fetch"):
        fetch.check(tmp_path, MODELS)
    assert "fetched" in fetch.fetch(tmp_path, MODELS, writes_files)[0]


def test_a_server_waits_for_its_weights(tmp_path, capsys):
    def arrives(_):
        fetch.fetch(tmp_path, MODELS, writes_files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch.time, "sleep", arrives)
        assert len(fetch.wait(tmp_path, MODELS, timeout_s=60)) == 2
    assert "wait for the Job specbook-fetch" in capsys.readouterr().out


def test_a_server_does_not_wait_for_ever(tmp_path, monkeypatch, capsys):
    for name, value in MODELS.items():
        monkeypatch.setenv(name, value)
    assert fetch.main(["check", f"--cache={tmp_path}", "--wait=0"]) == 1
    assert "org/target at aaaa" in capsys.readouterr().err


def test_a_file_that_went_away_is_named(tmp_path):
    fetch.fetch(tmp_path, MODELS, writes_files)
    (tmp_path / DRAFT / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"model\.safetensors of org/draft has gone"):
        fetch.check(tmp_path, MODELS)


def test_another_repository_in_its_place_is_refused(tmp_path):
    fetch.fetch(tmp_path, MODELS, writes_files)
    with pytest.raises(ConfigError, match="org/other"):
        fetch.check(tmp_path, MODELS | {"TARGET_REPO": "org/other"})


@pytest.mark.parametrize("revision", ["main", "set-the-commit", "", "A" * 40])
def test_a_branch_is_no_revision(tmp_path, revision, capsys, monkeypatch):
    for name, value in (MODELS | {"TARGET_REVISION": revision}).items():
        monkeypatch.setenv(name, value)
    assert fetch.main(["fetch", f"--cache={tmp_path}"]) == 1
    assert f"TARGET_REVISION is {revision!r}: set the 40-digit commit" in capsys.readouterr().err


def test_a_target_without_a_draft_is_one_model(tmp_path):
    alone = {name: value for name, value in MODELS.items() if name.startswith("TARGET")}
    assert fetch.models(alone) == {TARGET: "org/target"}
    with pytest.raises(ConfigError, match="TARGET_REPO is not set"):
        fetch.models({})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("reset"), r"org/target did not arrive whole .ConnectionError: reset.: run again"),
        (
            RevisionNotFoundError("404", response=ANSWER),
            f"no revision {TARGET}: fix models.env",
        ),
        (RepositoryNotFoundError("404", response=ANSWER), "the hub has no org/target that you may read"),
    ],
)
def test_a_hub_that_goes_away_half_way_is_said(tmp_path, monkeypatch, error, message):
    def half(repository, revision, local_dir):
        (local_dir / "config.json").write_text("{}")
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", half)
    with pytest.raises(ConfigError, match=message):
        fetch.fetch(tmp_path, MODELS)
    assert (tmp_path / TARGET / "config.json").is_file()
    assert not fetch.is_complete(tmp_path / TARGET, "org/target")
