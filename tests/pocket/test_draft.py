"""Heads of both kinds are trained, one after the other in one process, and what of them is shipped."""

import csv
import json
import signal
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.optim import _muon

from pocket import draft, outputs
from pocket.draft import Eagle3Recipe, PEagleRecipe
from pocket.tokenizer import MASK, MASK_ID

EAGLE3 = Eagle3Recipe(target_layer_ids=(1, 2, 3), ttt_steps=2, epochs=2, total_seq_len=64)
LENT = {"embed_tokens.weight", "lm_head.weight"}
PEAGLE = PEagleRecipe(
    target_layer_ids=(1, 2, 3), num_layers=2, num_depths=3, max_anchors=16, epochs=1, total_seq_len=64
)


def test_the_mask_token_is_the_tokenizers_and_not_the_pad(pocket_tokenizer):
    assert pocket_tokenizer.convert_tokens_to_ids(MASK) == MASK_ID != pocket_tokenizer.pad_token_id


@pytest.fixture(scope="module")
def heads(model_folder, tmp_path_factory):
    """An EAGLE-3 head, then a P-EAGLE head that goes on from it, from the same answers; both folders."""
    torch.set_num_threads(1)
    folder, rng = tmp_path_factory.mktemp("heads"), Random(0)
    samples = [
        {"prompt": rng.choices(range(4, 32), k=8), "answer": rng.choices(range(4, 32), k=12)}
        for _ in range(40)
    ]
    data = outputs.hidden_states(model_folder, samples, (1, 2, 3), folder / "data")
    found = []
    for recipe in (EAGLE3, PEAGLE.model_copy(update={"start": str(folder / "eagle3/out")})):
        work = folder / recipe.speculator_type
        found.append(draft.train_head(model_folder, data, recipe, work / "checkpoints", work / "out"))
    return found


def test_a_second_head_logs_its_own_epochs_once(heads):
    for folder, epochs in zip(heads, ([1, 2], [1]), strict=True):
        with (folder / "training.csv").open() as file:
            assert [int(row["epoch"]) for row in csv.DictReader(file)] == epochs


def test_a_training_that_is_interrupted_leaves_no_head(heads, model_folder, tmp_path, monkeypatch):
    from speculators.train import trainer

    monkeypatch.setattr(trainer.Trainer, "val_epoch", lambda *_: signal.raise_signal(signal.SIGINT))
    data = heads[0].parents[1] / "data"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            draft.train_head(model_folder, data, EAGLE3, tmp_path / "checkpoints", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "out").exists()


def test_each_head_says_what_it_is_and_what_it_was_trained_with(heads):
    eagle3, peagle = (json.loads((folder / "config.json").read_text()) for folder in heads)
    assert (eagle3["speculators_model_type"], peagle["speculators_model_type"]) == ("eagle3", "peagle")
    assert peagle["transformer_layer_config"]["num_hidden_layers"] == 2
    assert peagle["mask_token_id"] == MASK_ID
    recipes = [json.loads((folder / "recipe.json").read_text()) for folder in heads]
    assert recipes == [
        EAGLE3.model_dump(mode="json"),
        PEAGLE.model_dump(mode="json") | {"start": str(heads[0])},
    ]


def test_a_grown_head_adds_layers_that_write_nothing_yet(heads, tmp_path, model_folder):
    draft.starting_point(heads[0], PEAGLE, model_folder, tmp_path)
    made, old = (load_file(folder / "model.safetensors") for folder in (tmp_path, heads[0]))
    assert all(torch.equal(made[name].bfloat16(), weights) for name, weights in old.items())
    assert "input_norm.weight" in old  # what is read of the target is normalised
    more = made.keys() - old.keys()
    assert {name for name in more if not name.startswith("layers.1.")} == {"mask_hidden", *LENT}
    silent = {name for name in more if not made[name].any()}
    assert silent == {"layers.1.self_attn.o_proj.weight", "layers.1.mlp.down_proj.weight"}
    verifier = json.loads((tmp_path / "config.json").read_text())["speculators_config"]["verifier"]
    assert verifier["name_or_path"] == str(model_folder)


@pytest.fixture(scope="module")
def small_vocabulary(heads, model_folder, tmp_path_factory):
    """An EAGLE-3 head that drafts half of the tokens, and a P-EAGLE head grown of it on its embedding."""
    folder, data = tmp_path_factory.mktemp("small"), heads[0].parents[1] / "data"
    recipes = [EAGLE3.model_copy(update={"draft_vocab_size": 16, "epochs": 1})]
    grown = {"start": str(folder / "eagle3"), "num_layers": 1, "embed_requires_grad": False}
    recipes.append(PEAGLE.model_copy(update=grown))
    return [
        draft.train_head(model_folder, data, recipe, folder / f"{kind}-work", folder / kind)
        for recipe in recipes
        for kind in [recipe.speculator_type]
    ]


def test_a_grown_head_keeps_the_tokens_that_it_drafts(small_vocabulary):
    old, new = (load_file(folder / "model.safetensors") for folder in small_vocabulary)
    for name in ("t2d", "d2t", "lm_head.weight"):
        assert torch.equal(old[name], new[name])
    assert new["lm_head.weight"].shape[0] == new["t2d"].sum() == 16


def test_a_frozen_embedding_stays_the_targets(small_vocabulary):
    assert "embed_tokens.weight" not in load_file(small_vocabulary[1] / "model.safetensors")
    assert not json.loads((small_vocabulary[1] / "config.json").read_text())["embed_requires_grad"]


def test_a_new_peagle_head_cannot_freeze_its_embedding():
    with pytest.raises(ValueError, match="EAGLE-3 head to start from"):
        PEagleRecipe(embed_requires_grad=False)


@pytest.mark.parametrize("recipe", [EAGLE3, PEAGLE])
def test_a_head_of_its_own_kind_is_gone_on_from_as_it_is(recipe, heads, tmp_path, model_folder):
    head = heads[recipe is PEAGLE]
    made = draft.starting_point(head, recipe, model_folder, tmp_path)
    new, old = (load_file(folder / "model.safetensors") for folder in (made, head))
    trained = {"embed_tokens.weight"} if recipe is PEAGLE else set()
    assert new.keys() - old.keys() == LENT - trained, "a head is shipped without what its target lends"
    assert all(torch.equal(new[name], weight) for name, weight in old.items())
    config = json.loads((made / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == str(model_folder)


@pytest.mark.parametrize("recipe", [EAGLE3, PEAGLE])
def test_a_head_for_a_new_target_takes_its_class_and_tokens(recipe, heads, tmp_path):
    mixture = tmp_path / "mixture"
    mixture.mkdir()
    (mixture / "config.json").write_text('{"architectures": ["Qwen3MoeForCausalLM"]}')
    embedding, output = torch.zeros(4, 2), torch.ones(4, 2)
    theirs = {"model.embed_tokens.weight": embedding, "lm_head.weight": output}
    save_file(theirs, mixture / "model.safetensors")
    made = draft.starting_point(heads[0], recipe, mixture, tmp_path / "start")
    weights = load_file(made / "model.safetensors")
    assert torch.equal(weights["embed_tokens.weight"].float(), embedding)
    assert torch.equal(weights["lm_head.weight"].float(), output)
    verifier = json.loads((made / "config.json").read_text())["speculators_config"]["verifier"]
    assert verifier == {"name_or_path": str(mixture), "architectures": ["Qwen3MoeForCausalLM"]}


def test_the_trainer_is_restored_even_after_a_failure():
    from speculators.train import trainer

    def state():
        return (
            trainer.get_local_rank,
            trainer.Trainer.__init__,
            trainer.Trainer.val_epoch,
            torch.accelerator.synchronize,
            _muon._zeropower_via_newtonschulz,
        )

    before = state()
    with draft.patched_trainer([]):
        assert state() != before
    assert state() == before
    with pytest.raises(RuntimeError, match="out of data"), draft.patched_trainer([]):
        raise RuntimeError("out of data")
    assert state() == before


# what is shipped


def test_publish_takes_the_newest_checkpoint(tmp_path):
    scratch = tmp_path / "scratch"
    for step in (2, 10, 9):
        folder = scratch / str(step)
        folder.mkdir(parents=True)
        verifier = {"name_or_path": str(tmp_path / "models" / "pocket-dense"), "architectures": ["Qwen3"]}
        (folder / "config.json").write_text(
            json.dumps({"step": step, "speculators_config": {"verifier": verifier}})
        )
        (folder / "training_state.json").write_text("{}")
        weights = {
            "fc": torch.full((2,), step / 1), "d2t": torch.arange(3),
            "lm_head.weight": torch.full((3,), 0.1), "embed_tokens.weight": torch.full((3,), 0.2),
        }  # fmt: skip
        save_file(weights, folder / "model.safetensors")
    (scratch / "checkpoint_best").mkdir()

    lent = {"lm_head.weight": torch.full((3,), 0.1), "embed_tokens.weight": torch.full((3,), 0.1)}
    out = draft.publish(scratch, tmp_path / "out", lent)

    assert sorted(path.name for path in out.iterdir()) == ["config.json", "model.safetensors"]
    text = (out / "config.json").read_text()
    assert "/" not in text
    assert json.loads(text)["speculators_config"]["verifier"]["name_or_path"] == "pocket-dense"
    weights = load_file(out / "model.safetensors")
    assert weights["fc"].tolist() == [10, 10]
    assert (weights["fc"].dtype, weights["d2t"].dtype) == (torch.bfloat16, torch.int64)
    assert weights.keys() == {"fc", "d2t", "embed_tokens.weight"}, "what the target lends stays out"


def test_a_head_that_goes_on_keeps_its_form():
    wanted = "norm_before_fc=False would be ignored: .* start, 'models/older'. Leave out norm_before_fc"
    with pytest.raises(ValueError, match=wanted):
        PEagleRecipe(start="models/older", norm_before_fc=False)
    assert not PEagleRecipe(norm_before_fc=False).norm_before_fc
    again = PEagleRecipe(start="models/older")
    assert PEagleRecipe.model_validate(again.model_dump()) == again, "as recipe.json has it"
