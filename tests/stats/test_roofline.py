"""Step costs against hand arithmetic, and the break-even that a mixture's experts predict."""

import pytest

from specbook.stats.roofline import decode_step, verification_price
from specbook.stats.shape import ModelShape

TINY = ModelShape(
    num_layers=2, hidden_size=8, num_heads=2, num_kv_heads=1, head_dim=4, vocab_size=16, tied_embeddings=True,
    intermediate_size=16,
)  # fmt: skip
DENSE = ModelShape(
    num_layers=2, hidden_size=64, num_heads=2, num_kv_heads=1, head_dim=32, vocab_size=128,
    tied_embeddings=True, intermediate_size=256,
)  # fmt: skip
MOE = DENSE.model_copy(update={
    "num_moe_layers": 2, "num_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 32,
})  # fmt: skip


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


def test_verification_costs_only_a_mixture():
    assert verification_price(DENSE, 1, 5, 100, 2.0) == 1.0
    assert verification_price(MOE, 1, 0, 100, 2.0) == 1.0
    assert verification_price(MOE, 1, 5, 100, 2.0) > verification_price(MOE, 1, 1, 100, 2.0) > 1


def test_verification_is_free_once_all_experts_are_touched():
    prices = [verification_price(MOE, batch, 5, 0, 2.0) for batch in (1, 8, 64)]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] == pytest.approx(1, abs=1e-6)


def test_counted_experts_go_before_the_formula():
    none_more = verification_price(MOE, 1, 5, 0, 2.0, counted=(2.0, 2.0))
    assert none_more == 1.0
    expert_bytes = 2 * 3 * 64 * 32 * 2.0
    step = MOE.weight_bytes(2.0, experts=2.0)
    want = (step + 3 * expert_bytes) / step
    assert verification_price(MOE, 1, 5, 0, 2.0, counted=(2.0, 5.0)) == pytest.approx(want)
