"""Models of random weights that a real engine can serve: for tests when no pocket model is there."""

import json
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from specbook.config import models
from specbook.config.schema import Target

VOCAB_SIZE = 4096
IN_THE_CORE = ("--distributed-executor-backend=uni",)
"""vLLM's worker in the process of its engine core, since the imports of another take as long as the rest."""
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def make_tokenizer(folder: Path) -> None:
    """Write a tokenizer of CHAT_TEMPLATE into `folder`."""
    _tokenizer().save_pretrained(folder)


@cache
def _tokenizer() -> Any:
    """Byte-level BPE learnt from the standard library's text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    tokenizer.train_from_iterator(
        [p.read_text(errors="replace") for p in sorted(stdlib.glob("[a-e]*.py"))], trainer
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2], chat_template=CHAT_TEMPLATE
    )


def make_model(folder: Path, layers: int = 2, hidden_size: int = 64) -> Path:
    """A Qwen3 of random weights, with its tokenizer, in `folder`."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE, hidden_size=hidden_size, intermediate_size=hidden_size * 3,
        num_hidden_layers=layers, num_attention_heads=hidden_size // 32,
        num_key_value_heads=hidden_size // 32, head_dim=32, max_position_embeddings=1024,
        tie_word_embeddings=True, eos_token_id=2, bos_token_id=None, pad_token_id=0, initializer_range=0.2,
    )  # fmt: skip
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    make_tokenizer(folder)
    return folder


def make_mixture(folder: Path) -> Path:
    """A Qwen3-MoE of random weights, eight experts of which a token takes two, with its tokenizer."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=VOCAB_SIZE, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, max_position_embeddings=1024,
        tie_word_embeddings=True, eos_token_id=2, bos_token_id=None, pad_token_id=0, initializer_range=0.2,
        num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
    )  # fmt: skip
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    make_tokenizer(folder)
    return folder


def cut_down(folder: Path, target: Target) -> tuple[Target, str]:
    """A weightless target with its EAGLE-3 head, of a size that starts in seconds."""
    model = _shaped(folder, "qwen3-32b-bf16", num_hidden_layers=7)
    small = {"model": model, "dtype": "float32", "execution": "eager", "max_num_seqs": 4}
    head = _shaped(folder, "qwen3-32b-eagle3", draft_vocab_size=512)
    return target.model_copy(update=small | {"extra_args": IN_THE_CORE}), head


def _shaped(folder: Path, name: str, **changes: int) -> str:
    """A folder with the shape of a model in params/models/, but for its size."""
    config = models.shape(name) | {
        "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "vocab_size": VOCAB_SIZE, "torch_dtype": "float32", **changes,
    }  # fmt: skip
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(config))
    make_tokenizer(folder / name)
    return str(folder / name)
