"""Narrow copies: near the weights that they were made of, in formats engines read, nothing else narrowed."""

import json

import pytest
import torch
from safetensors.torch import load_file

from pocket import quantize
from specbook import paths
from specbook.config.checkpoint import read_config
from specbook.config.schema import Target
from specbook.errors import ConfigError
from specbook.stats.shape import TargetShape

DENSE = paths.models_dir() / "pocket-dense"
TARGET = Target(name="t", model="t", max_model_len=64)
NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return quantize.int8(DENSE, tmp_path_factory.mktemp("build") / "pocket-dense-int8")


def test_each_weight_is_within_half_a_step_of_its_own():
    wide = torch.tensor([[1.0, -0.5, 0.004], [0.0, 0.0, 0.0]])
    found = quantize.narrowed({NAME: wide, "model.norm.weight": wide})
    assert found[NAME].dtype == torch.int8
    assert found[NAME][0].tolist() == [127, -64, 1]
    back = found[NAME].float() * found[f"{NAME}_scale"]
    assert (back - wide).abs().max() <= 0.5 / 127 + 1e-7
    assert found["model.norm.weight"] is wide


def test_the_copy_narrows_the_layers_matrices_and_no_others(copy):
    before, after = (load_file(folder / quantize.WEIGHTS) for folder in (DENSE, copy))
    narrow = {name for name, tensor in after.items() if tensor.dtype == torch.int8}
    layers = json.loads((DENSE / "config.json").read_text())["num_hidden_layers"]
    assert len(narrow) == 7 * layers
    assert set(after) == set(before) | {f"{name}_scale" for name in narrow}
    assert all(after[f"{name}_scale"].shape == (before[name].shape[0], 1) for name in narrow)
    assert torch.equal(after["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


def test_its_config_says_so_and_the_sums_know_it(copy):
    from compressed_tensors.quantization import QuantizationConfig

    stored = json.loads((copy / "config.json").read_text())["quantization_config"]
    (group,) = QuantizationConfig.model_validate(stored).config_groups.values()
    assert (group.weights.num_bits, group.weights.strategy) == (8, "channel")
    assert (group.input_activations.strategy, group.input_activations.dynamic) == ("token", True)
    found = TargetShape.of(TARGET, read_config(copy))
    assert (found.widths.dtype_bytes, found.widths.layer_bytes) == (2, 1)
    assert not (copy / "quality.json").exists()  # it is the other one's


def test_four_bits_are_packed_as_compressed_tensors_reads_them():
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    torch.manual_seed(0)
    wide = torch.randn(6, 2 * quantize.GROUP, dtype=torch.bfloat16)
    wide[1, : quantize.GROUP] = 0.0
    found = quantize.packed({NAME: wide, "model.norm.weight": wide})
    names = (f"{NAME}_packed", f"{NAME}_scale", f"{NAME}_shape")
    held, scale, shape = (found[name] for name in names)
    assert set(found) == {*names, "model.norm.weight"}
    assert (held.dtype, held.shape, shape.tolist()) == (torch.int32, (6, 16), [6, 128])
    four = unpack_from_int32(held, 4, torch.Size(shape.tolist()))
    steps = scale.float().repeat_interleave(quantize.GROUP, dim=1)
    assert ((four * steps - wide.float()).abs() <= 0.52 * steps + 1e-30).all()  # the scale itself is rounded
    assert four.abs().max() == 7


def test_the_int4_copy_says_so_and_the_sums_know_it(tmp_path):
    from compressed_tensors.quantization import QuantizationConfig

    made = quantize.int4(DENSE, tmp_path / "pocket-dense-int4")
    before, after = (load_file(folder / quantize.WEIGHTS) for folder in (DENSE, made))
    narrow = {name.removesuffix("_packed") for name in after if name.endswith("_packed")}
    assert narrow == {name for name in before if quantize.LINEAR.search(name)}
    assert not narrow & set(after)
    stored = json.loads((made / "config.json").read_text())["quantization_config"]
    (group,) = QuantizationConfig.model_validate(stored).config_groups.values()
    assert (group.weights.num_bits, group.weights.group_size) == (4, quantize.GROUP)
    assert (stored["format"], group.input_activations) == ("pack-quantized", None)
    assert TargetShape.of(TARGET, read_config(made)).widths.layer_bytes == 0.5


def test_it_replaces_what_lay_there_and_needs_a_model(copy, tmp_path):
    (copy / "stray").touch()
    assert not (quantize.int8(DENSE, copy) / "stray").exists()
    with pytest.raises(ConfigError, match=r"has no model.safetensors: train the model first"):
        quantize.int8(tmp_path, tmp_path / "out")
