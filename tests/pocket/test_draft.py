"""What the head learns from, slot by slot, and what of it is shipped. Training itself is `speculators`'."""

import json
from collections import Counter

import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from specbook.config import Target
from specbook.errors import ConfigError
from specbook.greedy import Answer
from specbook.pocket import draft
from specbook.pocket.corpus import DOMAINS, held_out
from specbook.pocket.draft import DraftRecipe

RECIPE = DraftRecipe(target_layer_ids=(1, 2, 3), prompts_per_domain=1)
SAMPLES = [{"prompt": [5, 6, 7], "answer": [8, 2]}, {"prompt": [9], "answer": [4, 3, 2]}]
HIDDEN = 16


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("target")
    config = Qwen3Config(
        vocab_size=32, hidden_size=HIDDEN, intermediate_size=16, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.uniform_(0.5, 2.0)  # else the norm is nearly its own inverse
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(model_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    outputs = folder / "outputs.jsonl"
    outputs.write_text("\n".join(map(json.dumps, SAMPLES)) + "\n")
    return draft.hidden_states(model_folder, outputs, RECIPE, folder / "data")


@pytest.mark.parametrize(("i", "sample"), list(enumerate(SAMPLES)))
def test_only_answers_are_learnt_from(data, i, sample):
    row = load_from_disk(data)[i]
    assert row["input_ids"].tolist() == sample["prompt"] + sample["answer"]
    assert row["loss_mask"].tolist() == [0] * len(sample["prompt"]) + [1] * len(sample["answer"])
    assert row["seq_len"] == len(row["input_ids"])


@pytest.mark.parametrize(("i", "sample"), list(enumerate(SAMPLES)))
def test_each_slot_holds_what_it_says(data, model_folder, i, sample):
    found = load_file(data / f"hidden_states/hs_{i}.safetensors")
    ids = torch.tensor([sample["prompt"] + sample["answer"]])
    assert found["token_ids"].tolist() == ids[0].tolist()
    states = found["hidden_states"]
    assert (states.shape, states.dtype) == ((ids.shape[1], 4, HIDDEN), torch.bfloat16)

    model, outputs = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).eval(), []
    for layer in model.model.layers:
        layer.register_forward_hook(
            lambda _, args, out: outputs.append(out[0] if isinstance(out, tuple) else out)
        )
    with torch.inference_mode():
        normed = model.model(ids).last_hidden_state[0]
        # Slot k is the output of layer k counted from 1; the last is what goes into the final norm.
        for slot, layer in enumerate((1, 2, 3, 4)):
            torch.testing.assert_close(states[:, slot], outputs[layer - 1].view(-1, HIDDEN), atol=0, rtol=0)
        torch.testing.assert_close(model.model.norm(states[:, 3]), normed, atol=0, rtol=0)
        assert not torch.equal(states[:, 3], normed)


@pytest.mark.parametrize("layers", [(0, 1, 2), (1, 2, 4)])
def test_layers_that_the_target_does_not_have_are_refused(model_folder, tmp_path, layers):
    (tmp_path / "outputs.jsonl").write_text(json.dumps(SAMPLES[0]))
    recipe = DraftRecipe(target_layer_ids=layers)
    with pytest.raises(ConfigError, match="1 to 3"):
        draft.hidden_states(model_folder, tmp_path / "outputs.jsonl", recipe, tmp_path / "data")


# prompts and the target's answers


def test_training_prompts_take_the_domains_in_turn_and_none_is_held_out():
    prompts = draft.training_prompts(3)
    assert len(prompts) == len(set(prompts)) == 12
    assert not set(prompts) & {e.prompt for domain in DOMAINS for e in held_out(domain)}
    assert draft.training_prompts(3) == prompts


@pytest.fixture
def target_folder(tmp_path, monkeypatch):
    """A target that answers at once; yields its folder and counts its starts."""
    starts = Counter()

    class Server:
        def __init__(self, target):
            starts["n"] += 1

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def answers(server, prompts, max_tokens, concurrency):
        return [Answer(prompt_token_ids=(1, 2), token_ids=(3,), text="") for _ in prompts]

    monkeypatch.setattr(draft, "VllmServer", Server)
    monkeypatch.setattr(draft, "answers", answers)
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"w": torch.zeros(1)}, folder / "model.safetensors")
    return folder, starts


def test_the_target_answers_once_and_again_only_if_it_was_trained_again(target_folder, tmp_path):
    folder, starts = target_folder
    target = Target(name="t", model=str(folder), max_model_len=64)
    path = draft.greedy_outputs(target, RECIPE, tmp_path / "work")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"prompt": [1, 2], "answer": [3]}
    ] * 4
    assert draft.greedy_outputs(target, RECIPE, tmp_path / "work") == path
    assert starts["n"] == 1
    save_file({"w": torch.ones(2)}, folder / "model.safetensors")
    assert draft.greedy_outputs(target, RECIPE, tmp_path / "work") != path
    more = RECIPE.model_copy(update={"prompts_per_domain": 2})
    draft.greedy_outputs(target, more, tmp_path / "work")
    assert starts["n"] == 3


# what is shipped


def test_publish_takes_the_newest_checkpoint_halved_and_without_paths(tmp_path):
    scratch = tmp_path / "scratch"
    for step in (2, 10, 9):
        folder = scratch / str(step)
        folder.mkdir(parents=True)
        verifier = {"name_or_path": str(tmp_path / "models" / "pocket-dense"), "architectures": ["Qwen3"]}
        (folder / "config.json").write_text(
            json.dumps({"step": step, "speculators_config": {"verifier": verifier}})
        )
        (folder / "training_state.json").write_text("{}")
        save_file({"fc": torch.full((2,), step / 1), "d2t": torch.arange(3)}, folder / "model.safetensors")
    (scratch / "checkpoint_best").mkdir()

    out = draft.publish(scratch, tmp_path / "out")

    assert sorted(path.name for path in out.iterdir()) == ["config.json", "model.safetensors"]
    text = (out / "config.json").read_text()
    assert "/" not in text
    assert json.loads(text)["speculators_config"]["verifier"]["name_or_path"] == "pocket-dense"
    weights = load_file(out / "model.safetensors")
    assert weights["fc"].tolist() == [10, 10]
    assert (weights["fc"].dtype, weights["d2t"].dtype) == (torch.bfloat16, torch.int64)
