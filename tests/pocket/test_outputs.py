"""What drafts learn from: the target's answers, and its hidden states slot by slot."""

import json
from collections import Counter
from itertools import islice
from unittest.mock import ANY

import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from pocket import outputs
from pocket.corpus import DOMAINS, UNSEEN, held_out, train_examples
from pocket.loss import fast_bfloat16
from pocket.outputs import OutputsRecipe
from specbook.bench.greedy import Answer
from specbook.config.schema import Target
from specbook.errors import ConfigError

RECIPE = OutputsRecipe(prompts_per_domain=1)
LAYERS = (1, 2, 3)
SAMPLES = [{"prompt": [5, 6, 7], "answer": [8, 2]}, {"prompt": [9], "answer": [4, 3, 2]}]
HIDDEN = 16


@pytest.fixture(scope="module")
def data(model_folder, tmp_path_factory):
    return outputs.hidden_states(model_folder, SAMPLES, LAYERS, tmp_path_factory.mktemp("states") / "data")


@pytest.mark.parametrize(("i", "sample"), list(enumerate(SAMPLES)))
def test_only_answers_are_learnt_from(data, i, sample):
    row = load_from_disk(data)[i]
    assert row["input_ids"].tolist() == sample["prompt"] + sample["answer"]
    assert row["loss_mask"].tolist() == [0] * len(sample["prompt"]) + [1] * len(sample["answer"])
    assert row["seq_len"] == len(row["input_ids"])


def test_states_of_the_same_answers_and_layers_are_read_once(model_folder, tmp_path):
    states = [tmp_path / f"hidden_states/hs_{i}.safetensors" for i in range(2)]

    def made(samples, layers):
        outputs.hidden_states(model_folder, samples, layers, tmp_path)
        return [
            (one.stat().st_mtime_ns, load_file(one)["hidden_states"].shape[1])
            for one in states[: len(samples)]
        ]

    (first,) = made(SAMPLES[:1], LAYERS)
    assert made(SAMPLES, LAYERS) == [first, (ANY, 4)]  # more answers: the first keeps its own
    assert len(load_from_disk(tmp_path)) == 2
    states[0].unlink()  # as an interrupted reading leaves it
    assert made(SAMPLES, LAYERS)[0] != first
    assert made(SAMPLES[::-1], LAYERS)[0] != first  # another answer at its place
    assert made(SAMPLES, LAYERS[:2]) == [(ANY, 3), (ANY, 3)]


@pytest.mark.parametrize(("i", "sample"), list(enumerate(SAMPLES)))
def test_each_slot_holds_what_it_says(data, model_folder, i, sample):
    found = load_file(data / f"hidden_states/hs_{i}.safetensors")
    ids = torch.tensor([sample["prompt"] + sample["answer"]])
    assert found["token_ids"].tolist() == ids[0].tolist()
    states = found["hidden_states"]
    assert (states.shape, states.dtype) == ((ids.shape[1], 4, HIDDEN), torch.bfloat16)

    dtype, passed = torch.bfloat16 if fast_bfloat16("cpu") else torch.float32, []
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=dtype).eval()
    for layer in model.model.layers:
        layer.register_forward_hook(
            lambda _, args, out: passed.append(out[0] if isinstance(out, tuple) else out)
        )
    with torch.inference_mode():
        normed = model.model(ids).last_hidden_state[0]
        # Slot k is the output of layer k counted from 1; the last is what goes into the final norm.
        for slot, layer in enumerate((1, 2, 3, 4)):
            output = passed[layer - 1].view(-1, HIDDEN).bfloat16()
            torch.testing.assert_close(states[:, slot], output, atol=0, rtol=0)
        before = states[:, 3].to(dtype)
        torch.testing.assert_close(model.model.norm(before), normed, atol=0.01, rtol=0.01)
        assert not torch.allclose(before, normed, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("layers", [(0, 1, 2), (1, 2, 4)])
def test_layers_that_the_target_does_not_have_are_refused(model_folder, tmp_path, layers):
    with pytest.raises(ConfigError, match="1 to 3"):
        outputs.hidden_states(model_folder, SAMPLES[:1], layers, tmp_path / "data")


# prompts and the target's answers


def test_training_prompts_alternate_domains_and_are_not_held_out():
    three = OutputsRecipe(prompts_per_domain=3)
    prompts = outputs.training_prompts(three)
    assert len(prompts) == len(set(prompts)) == 3 * len(DOMAINS)
    assert not set(prompts) & {e.prompt for domain in DOMAINS for e in held_out(domain)}
    assert outputs.training_prompts(three) == prompts


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

    monkeypatch.setattr(outputs, "Server", Server)
    monkeypatch.setattr(outputs, "answers", answers)
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"w": torch.zeros(1)}, folder / "model.safetensors")
    return folder, starts


def test_the_target_answers_again_only_after_new_training(target_folder, tmp_path):
    folder, starts = target_folder
    target = Target(name="t", model=str(folder), max_model_len=64)
    path = outputs.target_outputs(target, RECIPE, tmp_path / "work")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"prompt": [1, 2], "answer": [3]}
    ] * len(DOMAINS)
    assert outputs.target_outputs(target, RECIPE, tmp_path / "work") == path
    assert starts["n"] == 1
    save_file({"w": torch.ones(2)}, folder / "model.safetensors")
    assert outputs.target_outputs(target, RECIPE, tmp_path / "work") != path
    more = RECIPE.model_copy(update={"prompts_per_domain": 2})
    outputs.target_outputs(target, more, tmp_path / "work")
    assert starts["n"] == 3


def test_sampled_answers_go_on_after_the_last_piece_without_loops(target_folder, tmp_path, monkeypatch):
    folder, _ = target_folder
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"prompt": f"p{i}"}) + "\n" for i in range(5)))
    monkeypatch.setattr(outputs.datasets, "path", lambda name: asked)
    monkeypatch.setattr(outputs, "PIECE", 2)
    sizes, interrupts = [], [1]  # before the second piece

    def answers(server, prompts, max_tokens, concurrency, **sampling):
        if len(sizes) in interrupts:
            raise KeyboardInterrupt
        sizes.append((len(prompts), sampling["temperature"]))
        texts = ["fine", "again and " * 40][: len(prompts)]
        return [Answer(prompt_token_ids=(1,), token_ids=(len(sizes),), text=text) for text in texts]

    monkeypatch.setattr(outputs, "answers", answers)
    target = Target(name="t", model=str(folder), max_model_len=64)
    recipe = OutputsRecipe(data_set="set", num_prompts=5, temperature=0.7)
    with pytest.raises(KeyboardInterrupt):
        outputs.target_outputs(target, recipe, tmp_path)
    interrupts.clear()
    path = outputs.target_outputs(target, recipe, tmp_path)
    assert sizes == [(2, 0.7), (2, 0.7), (1, 0.7)]
    assert [row["answer"] for row in outputs.load(path)] == [[1], [2], [3]]
    fewer = recipe.model_copy(update={"num_prompts": 4})
    assert [row["answer"] for row in outputs.load(outputs.target_outputs(target, fewer, tmp_path))] == [
        [1],
        [2],
    ]
    assert len(sizes) == 3


@pytest.mark.parametrize(
    ("fields", "said"), [({"num_prompts": 3}, "together"), ({"data_set": "set"}, "together")]
)
def test_a_data_set_and_a_number_go_together(fields, said):
    with pytest.raises(ValueError, match=said):
        OutputsRecipe(**fields)


def test_a_data_set_with_fewer_prompts_is_refused(tmp_path, monkeypatch):
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"prompt": "p"}) + "\n")
    monkeypatch.setattr(outputs.datasets, "path", lambda name: asked)
    with pytest.raises(ConfigError, match="set has 1 prompts: num_prompts 2"):
        outputs.training_prompts(OutputsRecipe(data_set="set", num_prompts=2))


def test_samples_reshuffle_and_mark_where_the_answer_starts(tmp_path):
    path = tmp_path / "outputs.jsonl"
    samples = [{"prompt": [i] * (i + 1), "answer": [9]} for i in range(6)]
    path.write_text("\n".join(map(json.dumps, samples)) + "\n")
    first, second = (list(islice(stream, 6)) for stream in [outputs.endless(path, seed=1)] * 2)
    assert sorted(first) == sorted(second) == [([i] * (i + 1) + [9], i + 1) for i in range(6)]
    assert first != second


def test_the_next_versions_new_prompts_are_kept_apart(target_folder, tmp_path):
    folder, starts = target_folder
    target = Target(name="t", model=str(folder), max_model_len=64)
    both = RECIPE.model_copy(update={"domains": (*DOMAINS, *UNSEEN)})
    old, new = (outputs.target_outputs(target, recipe, tmp_path / "work") for recipe in (RECIPE, both))
    assert [len(outputs.load(path)) for path in (old, new)] == [len(DOMAINS), len(DOMAINS) + 1]
    with pytest.raises(ValueError, match="'sql' is held out of training"):
        next(train_examples("sql", 1, outputs.PROMPT_SEED))
    assert starts["n"] == 2
