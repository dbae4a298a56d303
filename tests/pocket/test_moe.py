"""The mixture of experts: it starts as the dense model, narrows to top-k, learns, and is what vLLM reads."""

import json

import pytest
import torch
from safetensors import safe_open

from pocket import loop, loss, moe, target
from pocket.moe import MoeRecipe
from pocket.target import TargetRecipe
from specbook.errors import ConfigError
from specbook.stats.shape import ModelShape

SIZES = {
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "rows": 2, "row_tokens": 256, "warmup_steps": 2,
}  # fmt: skip
TINY = MoeRecipe(**SIZES, num_experts=8, num_experts_per_tok=2, narrowing_steps=6, steps=9)
IDS = torch.arange(4, 24)[None]


@pytest.fixture(scope="module")
def dense():
    torch.set_num_threads(1)
    return target.new_model(TargetRecipe(**SIZES, start=None)).eval()


@pytest.fixture
def started(monkeypatch, tmp_path, dense, pocket_tokenizer):
    """The dense model lies where the recipe looks for it; a checkpoint comes every three steps."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setattr(loop, "LOG_STEPS", 3)
    for part in (dense, pocket_tokenizer):
        part.save_pretrained(tmp_path / "models" / "pocket-dense")
    return tmp_path


def train(folder, recipe=TINY):
    return loop.train(recipe, folder / "out", folder / "scratch", report=lambda line: None)


# upcycling


@torch.inference_mode()
def test_with_all_experts_the_logits_are_the_dense_models(dense):
    model = moe.upcycled(dense, num_experts=8, num_experts_per_tok=8).eval()
    torch.testing.assert_close(model(IDS).logits, dense(IDS).logits, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_with_fewer_experts_they_are_not(dense):
    model = moe.upcycled(dense, num_experts=8, num_experts_per_tok=2).eval()
    assert (model(IDS).logits - dense(IDS).logits).abs().max() > 1e-3


def test_experts_together_are_as_large_as_their_mlps(dense):
    model = moe.upcycled(dense, num_experts=8, num_experts_per_tok=2)
    of_routers = sum(router.weight.numel() for router in moe.routers(model))
    assert model.num_parameters() - of_routers == dense.num_parameters()
    assert of_routers == 2 * 8 * 32


# the recipe


def test_a_token_takes_all_experts_at_first_and_top_k_at_last():
    assert [TINY.top_k(step) for step in range(8)] == [8, 7, 6, 5, 4, 3, 2, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_experts": 2, "num_experts_per_tok": 3}, "num_experts_per_tok 3 exceeds num_experts 2"),
        ({"num_experts": 7}, "intermediate_size 64 cannot be dealt out to 7 experts evenly"),
        ({"narrowing_steps": 9, "steps": 9}, "narrowing_steps 9 is not below steps 9"),
        ({"balance": -1}, "greater than or equal to 0"),
    ],
)
def test_experts_that_cannot_be_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        MoeRecipe(**{**SIZES, "num_experts": 8, "num_experts_per_tok": 2, **wrong})


def test_experts_are_muons_and_routers_are_not(dense):
    model = moe.upcycled(dense, num_experts=8, num_experts_per_tok=2)
    muon, _ = loop.optimizers(model, TINY)
    chosen = {id(p) for group in muon.param_groups for p in group["params"]}
    assert {id(layer.mlp.experts.gate_up_proj) for layer in model.model.layers} <= chosen
    assert not chosen & {id(router.weight) for router in moe.routers(model)}


def rows_of(ids):
    mask = loss.attention_mask(torch.zeros_like(ids))
    return ids, mask, torch.arange(ids.shape[1]).expand_as(ids), ids, torch.ones(ids.shape)


def test_uneven_experts_cost_and_the_cost_pulls_at_the_routers(dense):
    model = moe.upcycled(dense, num_experts=8, num_experts_per_tok=2)
    with torch.no_grad():
        for router in moe.routers(model):
            router.weight[0] = 1.0  # a first expert that takes what looks this way, whatever the token
    free, dear = (TINY.model_copy(update={"balance": weight}) for weight in (0.0, 1.0))
    losses = [recipe.loss(model, rows_of(IDS)) for recipe in (free, dear)]
    assert losses[0] == loss.weighted_loss(model, *rows_of(IDS))
    assert losses[1] > losses[0] + 1.99  # two experts a token: 2 were they even
    (losses[1] - losses[0]).backward()
    assert all(router.weight.grad.abs().max() > 0 for router in moe.routers(model))


# training


def test_a_tiny_one_learns_resumes_and_leaves_what_vllm_reads(started, monkeypatch):
    whole = train(started / "whole")
    step, left = loop._step, [5]

    def interrupted(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(started / "parts")
    assert {**train(started / "parts"), "hours": 0} == {**whole, "hours": 0}
    assert whole["math_loss"] < 9
    with safe_open(started / "whole" / "out" / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
    assert {f"model.layers.1.mlp.experts.7.{part}_proj.weight" for part in ("gate", "up", "down")} <= names
    config = json.loads((started / "whole" / "out" / "config.json").read_text())
    assert config["architectures"] == ["Qwen3MoeForCausalLM"]
    assert (config["num_experts_per_tok"], config["norm_topk_prob"]) == (2, True)
    shape = ModelShape.from_config(config)
    assert (shape.num_moe_layers, shape.num_experts, shape.moe_intermediate_size) == (2, 8, 8)


def test_a_checkpoint_of_other_dense_weights_is_left(started):
    train(started, TINY.model_copy(update={"steps": 1, "start_sha256": "old"}))
    with pytest.raises(ConfigError, match="has another start_sha256: remove it"):
        train(started, TINY.model_copy(update={"steps": 1, "start_sha256": "new"}))
