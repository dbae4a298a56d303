"""Model shapes against published parameter counts; step costs against hand arithmetic."""

import json

import pytest

from specbook.errors import ConfigError
from specbook.stats.roofline import decode_step
from specbook.stats.shape import ModelShape


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


@pytest.fixture
def shape_of(tmp_path):
    def read(body):
        (tmp_path / "config.json").write_text(json.dumps(body))
        return ModelShape.from_config(tmp_path)

    return read


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(shape_of, name):
    body, want = PUBLISHED[name]
    assert shape_of(body).num_parameters == want


def test_active_parameters_of_a_mixture(shape_of):
    active = shape_of(PUBLISHED["Qwen3-30B-A3B"][0]).num_active_parameters
    assert active == pytest.approx(3.0e9, rel=0.05)  # "A3B", the input embedding aside


def test_layers_named_dense_have_no_experts(shape_of):
    body = config("qwen3_moe", 2048, 4, 32, 4, 6144, 1000, **QWEN3_MOE, mlp_only_layers=[0])
    assert shape_of(body).num_moe_layers == 3


def test_experts_touched_grow_from_one_token_to_all():
    moe = TINY.model_copy(update={"num_moe_layers": 2, "num_experts": 8, "num_experts_per_token": 2})
    assert moe.experts_touched(1) == pytest.approx(2.0)
    assert moe.experts_touched(2) == pytest.approx(3.5)
    assert moe.experts_touched(200) == pytest.approx(8.0)
    assert TINY.experts_touched(5) == 0.0


def test_step_by_hand():
    # layer: q, o 2*8*8 + k, v 2*8*4 = 192, feed-forward 3*8*16 = 384; head 16*8 = 128: 2*576 + 128 = 1280
    # weights
    step = decode_step(TINY, batch=3, context=10, dtype_bytes=2, peak_bytes_per_s=1e3, peak_flops_per_s=1e4)
    assert TINY.kv_bytes_per_token(2) == 32
    assert step.bytes_read == 1280 * 2 + 3 * 10 * 32
    assert step.flops == 3 * (2 * 1280 + 4 * 2 * 2 * 4 * 10)
    assert (step.memory_s, step.compute_s) == pytest.approx((3.52, 0.96))
    assert (step.bound, step.least_s, step.overhead_s(4.0)) == ("memory", 3.52, pytest.approx(0.48))


def test_verifying_reads_the_same_bytes_and_computes_more():
    one = decode_step(TINY, 1, 10, 2, 1e3, 1e4)
    six = decode_step(TINY, 1, 10, 2, 1e3, 1e4, tokens_per_sequence=6)
    assert six.bytes_read == one.bytes_read
    assert six.flops == 6 * one.flops
    assert (one.bound, six.bound) == ("memory", "memory")


def test_devices_share_the_bytes_and_the_work_but_not_one_head():
    """TINY has one key-value head: two devices each keep it."""
    one, two = (decode_step(TINY, 1, 10, 2, 1e3, 1e4, devices=n) for n in (1, 2))
    assert two.bytes_read - one.bytes_read == 10 * 32
    assert two.memory_s == pytest.approx(two.bytes_read / 2e3)
    assert two.compute_s == pytest.approx(one.compute_s / 2)


def test_quantised_layers_are_narrower_and_the_head_is_not():
    assert decode_step(TINY, 1, 0, 2, 1e3, 1e4, layer_bytes=0.5).bytes_read == 2 * 576 * 0.5 + 128 * 2
    assert TINY.weight_bytes(2, layer_bytes=2) == TINY.weight_bytes(2) == 2 * TINY.num_parameters


@pytest.mark.parametrize("peaks", [(None, 1e4), (1e3, None), (None, None)])
def test_an_unknown_peak_is_never_guessed(peaks):
    step = decode_step(TINY, 1, 10, 2, *peaks)
    assert (step.bound, step.least_s, step.overhead_s(1.0)) == (None, None, None)
    assert (step.memory_s is None, step.compute_s is None) == (peaks[0] is None, peaks[1] is None)


@pytest.mark.parametrize(
    "bad", [{"batch": 0}, {"context": -1}, {"peak_bytes_per_s": 0.0}, {"dtype_bytes": 0}, {"devices": 0}]
)
def test_impossible_steps_are_refused(bad):
    good = {"batch": 1, "context": 1, "dtype_bytes": 2, "peak_bytes_per_s": 1.0, "peak_flops_per_s": 1.0}
    with pytest.raises(ValueError, match=r"impossible|positive"):
        decode_step(TINY, **{**good, **bad})


@pytest.mark.parametrize("body", [{"model_type": "mamba"}, {}, {"model_type": "llama"}])
def test_unknown_or_incomplete_architectures_are_refused(shape_of, body):
    with pytest.raises(ConfigError, match=r"model_type|has no"):
        shape_of(body)


def test_a_missing_config_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no readable"):
        ModelShape.from_config(tmp_path)
