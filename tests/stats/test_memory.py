"""Memory sums against hand arithmetic, and against sizes that others stated of real checkpoints."""

import pytest

from specbook.config import models
from specbook.stats import memory
from specbook.stats.memory import GIB, Memory
from specbook.stats.shape import FORMATS, ModelShape

TINY = ModelShape(
    num_layers=2, hidden_size=8, num_heads=2, num_kv_heads=1, head_dim=4, vocab_size=16, tied_embeddings=True,
    intermediate_size=16,
)  # fmt: skip
SHAPES = {name: ModelShape.from_config(models.config(name)) for name in models.names()}
STATED = [
    ("llama-3.3-70b", 70_553_706_496, 0),  # the hub's count of its safetensors
    ("qwen3-coder-30b-a3b", 30_532_122_624, 0),  # that of Qwen3-30B-A3B, whose layers are the same
    ("gpt-oss-120b", 116.83e9, 1e-4),  # arXiv:2508.10925, rounded to 10 million
]
"""Parameters as the makers count them, and how far they were rounded."""
CHECKPOINTS = [
    ("gpt-oss-120b", "mxfp4", 60.8 * GIB, 0.001),  # arXiv:2508.10925: 60.8 GiB
    ("qwen3-coder-30b-a3b", "fp8", 31.2e9, 0.01),  # what downloading it took
]
"""Bytes of checkpoints as others state them."""


@pytest.mark.parametrize(("name", "want", "rounded"), STATED)
def test_the_configs_give_the_stated_parameters(name, want, rounded):
    assert SHAPES[name].num_parameters == pytest.approx(want, rel=rounded, abs=0)


@pytest.mark.parametrize(("name", "form", "want", "within"), CHECKPOINTS)
def test_the_formats_give_the_stated_checkpoints(name, form, want, within):
    assert memory.weight_bytes(SHAPES[name], FORMATS[form], padded=False) == pytest.approx(want, rel=within)


def test_weights_by_hand():
    # attention 2 * 192 = 384, feed-forward 2 * 384 = 768; embedding 128 and norms 2 * 16 + 8 = 40 stay BF16
    assert (TINY.attention_weights, TINY.feed_forward_weights, TINY.num_parameters) == (384, 768, 1320)
    assert memory.weight_bytes(TINY, FORMATS["bf16"]) == 2 * 1320
    assert memory.weight_bytes(TINY, FORMATS["fp8"]) == 384 + 768 + 2 * 168
    assert memory.weight_bytes(TINY, FORMATS["int4-awq"]) == 1152 * (0.5 + 20 / 1024) + 336
    assert memory.weight_bytes(TINY, FORMATS["mxfp4"], padded=False) == 768 + 768 * 17 / 32 + 336
    # 8 is rounded up to 256, 16 to 128
    assert memory.weight_bytes(TINY, FORMATS["mxfp4"]) == 768 + 768 * 17 / 32 * 32 * 8 + 336


def test_the_sum_by_hand():
    found = Memory.of(
        TINY, FORMATS["bf16"], 10 * GIB, max_model_len=100, max_num_seqs=4, draft_bytes=1000, draft_layers=1,
        num_speculative_tokens=2, share=0.5,
    )  # fmt: skip
    # a step of 2048 tokens: four streams of 8 and the widest layer, 3 * 16; logits of 4 * 3 rows
    assert found.activation_bytes == 2048 * (4 * 8 + 48) * 2 + 12 * 16 * 6
    assert found.kv_bytes_per_sequence == 100 * 32 + 100 * 16
    assert found.used_bytes == 2640 + 1000 + found.activation_bytes + 2 * GIB
    assert found.kv_bytes == 5 * GIB - found.used_bytes
    assert found.sequences == int(found.kv_bytes // 4800)


def test_ranks_share_weights_but_not_one_head():
    one, two = (Memory.of(TINY, FORMATS["bf16"], 10 * GIB, 100, 4, ranks=n, draft_bytes=8) for n in (1, 2))
    assert (two.weight_bytes, two.draft_bytes) == (one.weight_bytes / 2, 4)
    assert two.kv_bytes_per_sequence == one.kv_bytes_per_sequence  # TINY has one key-value head


def test_sliding_layers_keep_their_window_only():
    half = TINY.model_copy(update={"num_sliding_layers": 1, "sliding_window": 10})
    assert half.kv_bytes(100, 2) == 100 * 16 + 10 * 16
    assert half.kv_bytes(5, 2) == TINY.kv_bytes(5, 2) == 5 * 32
    assert SHAPES["gpt-oss-120b"].num_sliding_layers == 18


def test_an_unknown_draft_is_said_and_not_guessed():
    found = Memory.of(TINY, FORMATS["bf16"], 10 * GIB, 100, 4, draft_bytes=None)
    assert found.draft_bytes is None
    assert "an unknown draft" in found.sum()
    assert "= at least" in found.sum()


def test_can_an_h200_serve_an_unquantised_70b():
    """Its weights alone are 141.1 GB: not on one card, at any share that leaves room for a step."""
    shape, card = SHAPES["llama-3.3-70b"], 150.0e9
    one, two = (Memory.of(shape, FORMATS["bf16"], card, 8192, 8, ranks=n) for n in (1, 2))
    assert one.weight_bytes == 141_107_412_992
    assert (one.sequences, one.kv_bytes < 0) == (0, True)
    assert two.sequences > 20
    assert Memory.of(shape, FORMATS["fp8"], card, 8192, 8).sequences > 20


def test_too_little_memory_holds_no_sequence():
    found = Memory.of(TINY, FORMATS["bf16"], 1 * GIB, 100, 4)
    assert (found.sequences, found.kv_bytes < 0) == (0, True)


@pytest.mark.parametrize("bad", [{"ranks": 0}, {"draft_layers": -1}, {"num_speculative_tokens": -1}])
def test_impossible_servers_are_refused(bad):
    with pytest.raises(ValueError, match="impossible server"):
        Memory.of(TINY, FORMATS["bf16"], 10 * GIB, 100, 4, **bad)
