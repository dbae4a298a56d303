"""Model shapes against published parameter counts, and widths by a plan's words and a checkpoint's."""

import pytest

from factories import target
from specbook.config import models
from specbook.errors import ConfigError
from specbook.stats.shape import FORMATS, KEPT_BYTES, ModelShape, TargetShape, widths


def config(model_type, hidden, layers, heads, kv, inter, vocab, tied=False, **more):
    return {
        "model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads":
        heads, "num_key_value_heads": kv, "intermediate_size": inter, "vocab_size": vocab,
        "tie_word_embeddings": tied, **more,
    }  # fmt: skip


QWEN3_MOE = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "head_dim": 128}
PUBLISHED = {  # totals of the safetensors indexes on the Hugging Face hub
    "Qwen3-0.6B": (config("qwen3", 1024, 28, 16, 8, 3072, 151936, True, head_dim=128), 596_049_920),
    "Qwen3-8B": (config("qwen3", 4096, 36, 32, 8, 12288, 151936, head_dim=128), 8_190_735_360),
    "Qwen3-30B-A3B": (config("qwen3_moe", 2048, 48, 32, 4, 6144, 151936, **QWEN3_MOE), 30_532_122_624),
    "Llama-3.1-8B": (config("llama", 4096, 32, 32, 8, 14336, 128256), 8_030_261_248),
    "Qwen2.5-7B": (config("qwen2", 3584, 28, 28, 4, 18944, 152064), 7_615_616_512),
    "Mixtral-8x7B": (
        config("mixtral", 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2),
        46_702_792_704,
    ),
}
TINY = ModelShape(
    num_layers=2, hidden_size=8, num_heads=2, num_kv_heads=1, head_dim=4, vocab_size=16, tied_embeddings=True,
    intermediate_size=16,
)  # fmt: skip
BF16 = {"dtype": "bfloat16"}
GROUPS = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}
MIXED = {"config_groups": {"a": {"weights": {"num_bits": 8}}, "b": {"weights": {"num_bits": 4}}}}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    body, want = PUBLISHED[name]
    assert ModelShape.from_config(body).num_parameters == want


def test_active_parameters_of_a_mixture():
    active = ModelShape.from_config(PUBLISHED["Qwen3-30B-A3B"][0]).num_active_parameters
    assert active == pytest.approx(3.0e9, rel=0.05)  # "A3B", the input embedding aside


def test_layers_named_dense_have_no_experts():
    body = config("qwen3_moe", 2048, 4, 32, 4, 6144, 1000, **QWEN3_MOE, mlp_only_layers=[0])
    assert ModelShape.from_config(body).num_moe_layers == 3


def test_experts_touched_grow_from_one_token_to_all():
    moe = TINY.model_copy(update={"num_moe_layers": 2, "num_experts": 8, "num_experts_per_token": 2})
    assert moe.experts_touched(1) == pytest.approx(2.0)
    assert moe.experts_touched(2) == pytest.approx(3.5)
    assert moe.experts_touched(200) == pytest.approx(8.0)
    assert TINY.experts_touched(5) == 0.0


@pytest.mark.parametrize("body", [{"model_type": "mamba"}, {}, {"model_type": "llama"}])
def test_unknown_or_incomplete_architectures_are_refused(body):
    with pytest.raises(ConfigError, match=r"model_type|has no"):
        ModelShape.from_config(body)


def test_a_token_takes_no_more_experts_than_there_are():
    with pytest.raises(ValueError, match="a token takes 9 experts, and there are 8"):
        ModelShape(**TINY.model_dump() | {"num_experts": 8, "num_experts_per_token": 9})


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


def test_a_model_file_says_the_format_that_its_config_does_not():
    found = TargetShape.of(target(), models.config("llama-3.3-70b"), "fp8")
    assert (found.form, found.widths.layer_bytes, found.widths.dtype_bytes) == (FORMATS["fp8"], 1, KEPT_BYTES)


@pytest.mark.parametrize(
    "config", [None, {"model_type": "mamba"}, {**PUBLISHED["Qwen3-8B"][0], "dtype": "int3"}]
)
def test_what_a_config_does_not_say_is_not_known(config):
    assert TargetShape.of(target(dtype="auto"), config) is None
