"""Shapes of models that are not here: what is written of them, and what is refused."""

import json

import pytest

from specbook import config, paths
from specbook.bench import dummy_models, resources
from specbook.config import models
from specbook.errors import ConfigError
from specbook.records import published

PLAN = "appendix_break_even"


def test_the_heads_file_is_as_large_as_its_shape_says_but_for_the_header():
    c, target = models.shape("qwen3-32b-eagle3"), models.shape("qwen3-32b-bf16")
    hidden, inner, draft, vocab = (
        c[k] for k in ("hidden_size", "intermediate_size", "draft_vocab_size", "vocab_size")
    )
    attention = 2 * hidden * c["head_dim"] * (c["num_attention_heads"] + 2 * c["num_key_value_heads"])
    out = c["num_attention_heads"] * c["head_dim"] * hidden
    weights = attention + out + 3 * hidden * inner + 3 * hidden**2 + (vocab + draft) * hidden + 4 * hidden
    mapping = 8 * draft + vocab  # an int64 per draft token, a bool per token
    size = models.load("qwen3-32b").heads["eagle3"].weight_bytes
    assert 0 < size - (2 * weights + mapping) < 4096
    assert (hidden, vocab) == (target["hidden_size"], target["vocab_size"])


def test_only_what_narrows_the_weights_is_added_to_a_models_config():
    wide, narrow = models.shape("qwen3-32b-bf16"), models.shape("qwen3-32b-fp8")
    assert narrow.pop("quantization_config")["quant_method"] == "compressed-tensors"
    assert narrow == wide


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qwen3-99b-fp8", "no model 'qwen3-99b-fp8' in params/models/"),
        ("qwen3-32b-int4-awq", "no quantization_config of qwen3-32b-int4-awq"),
        ("gpt-oss-120b-eagle3", "no shape of gpt-oss-120b-eagle3"),
    ],
)
def test_a_shape_that_is_not_known_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        models.shape(name)


def test_folders_are_written_for_shapes_and_for_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(paths.models_dir())
    (tmp_path / "params").symlink_to(paths.params_dir())
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    wanted = config.load(PLAN, "h100:qwen3-32b-fp8", "full").models()
    made = dummy_models.make([*wanted, "models/pocket-dense", "org/hub"])
    assert [folder.name for folder in made] == ["qwen3-32b-fp8", "qwen3-32b-eagle3"]
    assert json.loads((made[1] / "config.json").read_text())["architectures"] == ["LlamaForCausalLMEagle3"]
    assert all((folder / "tokenizer.json").is_file() for folder in made)
    assert not list(tmp_path.glob("build/**/*.safetensors"))


def test_a_machines_plan_serves_its_models_shape_with_its_heads():
    found = config.load(PLAN, "h200:llama-3.3-70b-fp8", "full")
    target, (first, *_) = found.parts()[0].target, found.parts()[0].speculations()
    assert (target.model, target.load_format) == ("build/shapes/llama-3.3-70b-fp8", "dummy")
    assert target.revision is None
    assert first.model == "build/shapes/llama-3.3-70b-eagle3"
    with pytest.raises(ConfigError, match="no shape of gpt-oss-120b-eagle3: add it"):
        config.load(PLAN, "h200:gpt-oss-120b-mxfp4", "full")


def test_a_shapes_memory_counts_its_head_as_the_models_file_states_it():
    dummy_models.make(config.load(PLAN, "h100:qwen3-32b-fp8", "full").models())
    lines = resources.lines([config.load(PLAN, "h100:qwen3-32b-fp8", "full")])
    assert all(line.startswith("fits: ") for line in lines)
    assert all("draft 3.1" in line for line in lines[1:])


@pytest.mark.parametrize("hardware", ["cpu", "h100:qwen3-32b-fp8"])
def test_the_rates_that_are_played_are_the_published_ones(hardware):
    held = {(row.target_model, row.dataset, row.metric): row.number for row in published.load()}
    strong = [held["Qwen3.8-27B", "GSM8K", f"acceptance_pos_{i}"] for i in range(8)]
    weak = [held["Gemma-4-31B", "qa", f"acceptance_pos_{i}_pct"] / 100 for i in range(8)]
    sets = config.load(PLAN, hardware, "full").parts()[0].synthetic_acceptance_rates
    assert [list(rates) for rates in sets] == [pytest.approx(strong), pytest.approx(weak)]


def test_every_draft_is_measured_at_each_set_cut_to_k():
    sweep = config.load(PLAN, "cpu", "full").parts()[0]
    arms = [(one.num_speculative_tokens, one.synthetic_acceptance_rates) for one in sweep.speculations()]
    strong, weak = sweep.synthetic_acceptance_rates
    assert arms == [(k, rates[:k]) for k in (1, 3, 5) for rates in (strong, weak)]
    labels = [one.label for one in sweep.speculations()]
    assert labels[:2] == ["EAGLE-3 K=1 at 1.94", "EAGLE-3 K=1 at 1.68"]
    assert len(set(labels)) == len(labels)


def test_a_k_beyond_the_rates_is_refused_with_both():
    with pytest.raises(ConfigError, match="has 8 positions, and K is 9"):
        config.plan_files.load(PLAN, "h100:qwen3-32b-fp8", "full", num_speculative_tokens=[9])
