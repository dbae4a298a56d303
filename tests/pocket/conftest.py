"""What several tests of the pocket models share."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from pocket.corpus import DOMAINS, train_examples
from pocket.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def pocket_tokenizer():
    """Learnt from less text than the shipped one, with the same special tokens."""
    return train_tokenizer(e for domain in DOMAINS for e in train_examples(domain, 1200, seed=0))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A target of random weights, four layers of 16, 32 tokens."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("target")
    config = Qwen3Config(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.uniform_(0.5, 2.0)  # else the norm is nearly its own inverse
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder
