"""Heads as they are published: what they hold says which method drafts with them, whatever their class."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from specbook.config import plan_overrides
from specbook.config.schema import Speculation, Target
from specbook.engine import base, preflight
from specbook.errors import ConfigError

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "vocab_size": 16}
ONE = LLAMA | {"num_hidden_layers": 1}
FC2, FC3 = {"fc.weight": (8, 16)}, {"fc.weight": (8, 24)}
WHOLE = {"model.embed_tokens.weight": (16, 8), "model.norm.weight": (8,)}


def speculators(word: str, **more) -> dict:
    """As its trainer writes it."""
    return {"speculators_config": {"algorithm": word}, "transformer_layer_config": ONE} | more


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Writes a model of this configuration and these tensors; its name tells nothing."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))

    def write(config, tensors=None, name="mine"):
        made = tmp_path / name
        made.mkdir(parents=True)
        (made / "config.json").write_text(json.dumps(config))
        if tensors:
            save_file(
                {key: np.zeros(shape, "float32") for key, shape in tensors.items()},
                made / "model.safetensors",
            )
        return made

    return write


PARALLEL = ("eagle3", True)


@pytest.mark.parametrize(
    ("config", "tensors", "want"),
    [
        # named by speculators
        (speculators("eagle3") | {"architectures": ["Eagle3DraftModel"]}, {}, ("eagle3", False)),
        (speculators("peagle", mask_token_id=3) | {"architectures": ["PEagleDraftModel"]}, {}, PARALLEL),
        (speculators("eagle") | {"architectures": ["EagleSpeculator"]}, {}, ("eagle", False)),
        ({"speculators_model_type": "eagle3", "architectures": ["Eagle3Speculator"]}, {}, ("eagle3", False)),
        (speculators("eagle3") | {"architectures": None}, {}, ("eagle3", False)),
        # named by their class
        (ONE | {"architectures": ["LlamaForCausalLMEagle3"]}, {}, ("eagle3", False)),
        (ONE | {"architectures": ["Eagle3LlamaForCausalLM"]}, {}, ("eagle3", False)),
        (ONE | {"architectures": ["Eagle3Qwen2_5vlForCausalLM"]}, {}, ("eagle3", False)),
        (ONE | {"architectures": ["LlamaForCausalLMEagle3"], "ptd_token_id": 7}, {}, PARALLEL),
        (ONE | {"architectures": ["PeagleQwen3ForCausalLM"], "pard_token": 7}, {}, PARALLEL),
        (ONE | {"architectures": ["EagleLlamaForCausalLM"]}, {}, ("eagle", False)),
        (ONE | {"architectures": ["LlamaForCausalLMEagle"]}, {}, ("eagle", False)),
        ({"model_type": "eagle", "model": ONE}, {}, ("eagle", False)),
        # named after their target: what they hold tells
        (ONE | {"draft_vocab_size": 4}, {}, ("eagle3", False)),
        (ONE, FC3, ("eagle3", False)),
        (ONE, FC3 | {"d2t": (4,), "t2d": (16,)}, ("eagle3", False)),
        (ONE | {"num_hidden_layers": 40}, {"d2t": (4,)}, ("eagle3", False)),
        (ONE | {"target_hidden_size": 4}, {"fc.weight": (8, 12)}, ("eagle3", False)),
        (ONE | {"mask_token_id": 3}, FC3, PARALLEL),
        (ONE, FC2, ("eagle", False)),
        (ONE | {"architectures": None}, {"model.fc.weight": (8, 16)}, ("eagle", False)),
        # whole models
        (ONE, WHOLE, ("draft_model", False)),
        (LLAMA | {"num_hidden_layers": 2}, {}, ("draft_model", False)),
        (LLAMA | {"architectures": ["GPT2LMHeadModel"]}, {}, ("draft_model", False)),
        (
            {
                "architectures": ["Eagle2_5_VLForConditionalGeneration"],
                "text_config": {"num_hidden_layers": 2},
            },
            {},
            ("draft_model", False),
        ),
    ],
)
def test_a_head_is_recognised_by_what_it_holds(folder, config, tensors, want):
    found = plan_overrides.draft(str(folder(config, tensors)))
    assert (found["method"], found.get("parallel_drafting", False)) == want


@pytest.mark.parametrize(
    ("config", "tensors", "words"),
    [
        (ONE, {}, "LlamaForCausalLM of one layer may be a head or a whole model.*name it, METHOD:"),
        ({}, {}, "is not named, which fits no method here .*name it, METHOD:"),
        ({"medusa_num_heads": 4}, {}, "a head of Medusa, which fits no method"),
        ({"architectures": ["MedusaModel"]}, {}, "a head of Medusa"),
        (ONE, {"0.0.linear.weight": (8, 8), "0.1.weight": (16, 8)}, "a head of Medusa"),
        ({"architectures": ["DeepSeekMTPModel"]}, {}, "a head of MTP"),
        (ONE | {"model_type": "qwen3_next_mtp"}, {}, "a head of MTP"),
        ({"architectures": ["MLPSpeculatorPreTrainedModel"]}, {}, "a head of MLP speculator"),
        (speculators("dflash", mask_token_id=3), {}, "a head of DFlash"),
        (ONE | {"dflash_config": {"target_layer_ids": [1]}}, {}, "a head of DFlash"),
        ({"architectures": ["Qwen3DSparkModel"]}, {}, "a head of DSpark"),
    ],
)
def test_what_cannot_be_told_or_served_is_refused(folder, config, tensors, words):
    with pytest.raises(ConfigError, match=words):
        plan_overrides.draft(str(folder(config, tensors)))


@pytest.mark.parametrize(
    ("method", "config", "tensors", "words"),
    [
        ("eagle", ONE, FC3, r"holds a head of EAGLE-3, and is asked to be EAGLE: name it eagle3:head"),
        ("eagle3", ONE, FC2, r"holds a head of EAGLE, and is asked to be EAGLE-3: name it eagle:head"),
        ("draft_model", ONE, FC2, "holds a head of EAGLE, and is asked to be draft model"),
    ],
)
def test_a_head_is_not_served_as_another(folder, method, config, tensors, words):
    target = folder(LLAMA, WHOLE, "target")
    (target / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    head = Speculation(method=method, model=str(folder(config, tensors, "head")), num_speculative_tokens=2)
    with pytest.raises(ConfigError, match=words):
        preflight.check(Target(name="t", model=str(target), max_model_len=64), head)


@pytest.mark.parametrize(
    ("word", "title"),
    [("eagle-tests", "EAGLE"), ("my_Eagle3", "EAGLE-3"), ("dflash", "DFlash"), ("dspark_7", "DSpark")],
)
def test_a_path_by_which_the_engine_would_run_another_is_refused(folder, word, title):
    target = Target(name="t", model="org/t", max_model_len=64)
    engine = base.for_target(target)
    small = str(folder(LLAMA, WHOLE, f"{word}/small"))
    asked = {"model": small, "num_speculative_tokens": 2}
    said = engine.refusal(target, Speculation(method="draft_model", **asked))
    assert f"vLLM would run it as {title}, and the plan says draft model: rename the folder" in said
    assert engine.refusal(target, Speculation(method="eagle", **asked)) is None  # the engine keeps these
