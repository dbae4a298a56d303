"""A head as GGUF: each weight in its place, with the target's words, and nothing dropped in silence."""

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pocket import gguf_head
from specbook import paths
from specbook.errors import ConfigError

HEAD = paths.models_dir() / "smollm2-135m-eagle3"


@pytest.fixture
def target(tmp_path):
    """A GGUF that has a tokenizer, and keys of its own that a head must not take over."""
    writer = gguf.GGUFWriter(tmp_path / "target.gguf", "llama")
    writer.add_token_list(["a", "b"])
    writer.add_block_count(30)
    for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, write)()
    return tmp_path / "target.gguf"


def test_a_head_keeps_its_weights_and_takes_the_targets_tokenizer(target, tmp_path):
    (made,) = gguf_head.write(HEAD, target, tmp_path / "made").glob("*.gguf")
    reader = gguf.GGUFReader(made)
    told = {name: field.contents() for name, field in reader.fields.items()}
    assert told["general.architecture"] == "eagle3"
    assert told["tokenizer.ggml.tokens"] == ["a", "b"]
    assert (told["eagle3.block_count"], "llama.block_count" in told) == (1, False)
    assert told["eagle3.target_layers"] == [2, 15, 27]
    assert told["eagle3.norm_before_fc"] is told["eagle3.norm_before_residual"] is True
    written = {tensor.name: tensor.data for tensor in reader.tensors}
    weights = load_file(HEAD / "model.safetensors")
    for ours, theirs in gguf_head.NAMES.items():
        if not ours.endswith(("q_proj", "k_proj")):
            assert np.array_equal(written[f"{theirs}.weight"], weights[f"{ours}.weight"].float().numpy())
    kept = np.flatnonzero(weights["t2d"].numpy())  # the target's tokens that the draft has
    assert np.array_equal(written["d2t"], kept)
    assert len(written) == len(weights) - 1
    assert (tmp_path / "made/config.json").is_file()


def test_queries_turn_by_neighbours_as_they_did_by_halves():
    heads, size, angle = 3, 8, torch.rand(4)
    rows = torch.randn(heads * size, 5)
    first, second = rows.unflatten(0, (heads, 2, -1)).unbind(1)
    turned = first * angle.cos()[:, None] - second * angle.sin()[:, None]
    pairs = gguf_head._neighbours(rows, heads).unflatten(0, (heads, -1, 2))
    assert torch.equal(pairs[:, :, 0] * angle.cos()[:, None] - pairs[:, :, 1] * angle.sin()[:, None], turned)


def test_a_tensor_without_a_place_is_named(target, tmp_path):
    head = tmp_path / "head"
    head.mkdir()
    (head / "config.json").write_text((HEAD / "config.json").read_text())
    save_file({"d2t": torch.zeros(2), "layers.0.mlp.bias": torch.zeros(2)}, head / "model.safetensors")
    with pytest.raises(ConfigError, match=r"eagle3 has no place for layers\.0\.mlp\.bias of "):
        gguf_head.write(head, target, tmp_path / "made")
    assert not (tmp_path / "made").exists()
