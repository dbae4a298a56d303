"""A plain draft model learns from the target's answers and keeps its tokenizer."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from pocket import draft_model, loop, outputs
from pocket.catalogue import DENSE
from pocket.corpus import held_out
from pocket.draft_model import DraftModelRecipe
from pocket.packing import encoded

TINY = DraftModelRecipe(
    num_hidden_layers=1, hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1,
    head_dim=16, rows=2, steps=12, warmup_steps=2,
)  # fmt: skip


@pytest.fixture
def trained(tmp_path, monkeypatch, pocket_tokenizer):
    """A draft model that learnt eight answers by heart; its folder."""
    torch.set_num_threads(1)
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setattr(loop, "held_out_batches", lambda *_: {})
    monkeypatch.setattr(loop, "LOG_STEPS", 6)
    pocket_tokenizer.save_pretrained(tmp_path / DENSE.model)
    samples = encoded(held_out("math", 8), pocket_tokenizer)
    answered = tmp_path / "outputs.jsonl"
    answered.write_text("\n".join(json.dumps({"prompt": i[:n], "answer": i[n:]}) for i, n in samples))
    monkeypatch.setattr(outputs, "target_outputs", lambda target, recipe, out: answered)
    draft_model.train(DENSE, TINY, tmp_path / "scratch", tmp_path / "out", report=lambda line: None)
    return tmp_path / "out"


def test_it_learns_the_targets_answers(trained):
    rows = (trained / "training.csv").read_text().splitlines()[1:]
    losses = [float(row.split(",")[3]) for row in rows]
    assert losses[-1] < losses[0] < 9


def test_it_has_the_targets_tokens_and_few_layers(trained, pocket_tokenizer):
    assert AutoTokenizer.from_pretrained(trained).get_vocab() == pocket_tokenizer.get_vocab()
    layers = {name.split(".")[2] for name in load_file(trained / "model.safetensors") if ".layers." in name}
    assert layers == {"0"}
    assert json.loads((trained / "recipe.json").read_text()) == TINY.model_dump(mode="json")
