"""Bytes per weight as a model is served, from a plan's words and a checkpoint's config."""

import pytest

from factories import target
from specbook.stats.precision import widths

BF16 = {"dtype": "bfloat16"}
GROUPS = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}
MIXED = {"config_groups": {"a": {"weights": {"num_bits": 8}}, "b": {"weights": {"num_bits": 4}}}}


@pytest.mark.parametrize(
    ("served", "config", "want"),
    [
        ({}, {}, (2, 2)),
        ({"dtype": "float32"}, BF16, (4, 4)),
        ({"dtype": "auto"}, BF16, (2, 2)),
        ({"dtype": "auto"}, {"torch_dtype": "float16"}, (2, 2)),
        ({"dtype": "auto"}, {}, None),
        ({"quantization": "fp8"}, {}, (2, 1)),
        ({}, {"quantization_config": {"quant_method": "fp8"}}, (2, 1)),
        ({}, {"quantization_config": {"quant_method": "awq", "bits": 4}}, (2, 0.5)),
        ({"quantization": "compressed-tensors"}, {"quantization_config": GROUPS}, (2, 1)),
        ({}, {"quantization_config": MIXED}, None),
        ({"quantization": "bitsandbytes"}, {}, None),
    ],
)
def test_widths_are_known_or_none(served, config, want):
    found = widths(target(**served), config)
    assert (found and (found.dtype_bytes, found.layer_bytes)) == want
    assert found is None or found.quantized == (want[0] != want[1])
