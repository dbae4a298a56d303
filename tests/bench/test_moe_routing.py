"""Which experts a token takes: as the model itself chooses, and with noise in its router."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from specbook.bench import moe_routing
from specbook.errors import ConfigError

SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip
PROMPT, ANSWER = range(4, 10), range(10, 22)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    config = Qwen3MoeConfig(**SIZES, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=8,
                            norm_topk_prob=True, initializer_range=0.5)  # fmt: skip
    folder = tmp_path_factory.mktemp("moe")
    Qwen3MoeForCausalLM(config).save_pretrained(folder)
    return folder


def test_each_token_takes_top_k_experts_in_each_layer(folder):
    found = moe_routing.chosen(moe_routing.load(folder), PROMPT, ANSWER)
    assert found.shape == (12, 3, 8)
    assert (found.sum(axis=-1) == 2).all()


def test_the_choice_is_the_routers_own(folder):
    model = moe_routing.load(folder)
    found = moe_routing.chosen(model, PROMPT, ANSWER)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *ANSWER]]), output_router_logits=True).router_logits
    best = torch.stack(list(logits), dim=1)[len(PROMPT) :].topk(2).indices.sort().values
    assert torch.equal(torch.tensor(found).nonzero()[:, 2].view(12, 3, 2), best)


@torch.inference_mode()
def test_noise_is_repeated_by_its_seed(folder):
    ids = torch.tensor([[*PROMPT]])
    still = [moe_routing.load(folder), moe_routing.load(folder, router_noise=0.0)]
    assert torch.equal(*(model(ids).logits for model in still))
    noisy = [moe_routing.load(folder, router_noise=10.0)(ids).logits for _ in range(2)]
    assert torch.equal(*noisy)
    assert (noisy[0] - still[0](ids).logits).abs().max() > 0.1


def test_much_noise_spreads_the_choice_over_all_experts(folder):
    model = moe_routing.load(folder, router_noise=20.0)
    found = moe_routing.chosen(model, PROMPT, [5] * 300)
    assert found.mean(axis=0) == pytest.approx(0.25, abs=0.15)


def test_a_negative_strength_is_refused(folder):
    with pytest.raises(ConfigError, match=r"router_noise -1 is negative.*a standard deviation is 0 or more"):
        moe_routing.load(folder, router_noise=-1.0)


def test_a_dense_model_is_refused(tmp_path):
    Qwen3ForCausalLM(Qwen3Config(**SIZES)).save_pretrained(tmp_path / "dense")
    with pytest.raises(ConfigError, match="dense is no mixture of experts known here"):
        moe_routing.load(tmp_path / "dense")


def test_the_spread_is_that_of_the_logits(folder):
    model = moe_routing.load(folder)
    with torch.no_grad():
        for router in moe_routing.routers(model):
            router.weight.mul_(3)
    assert moe_routing.logit_spread(model, PROMPT) > 2 * moe_routing.logit_spread(
        moe_routing.load(folder), PROMPT
    )
