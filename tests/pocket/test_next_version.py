"""The next version: only a small difference learns and ships, and what it makes is the same everywhere."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen3ForCausalLM

from pocket import checkpoint, loop, next_version, target
from pocket.next_version import FILE, NextRecipe
from pocket.target import TargetRecipe
from specbook.bench import provenance
from specbook.errors import ConfigError

SIZES = {
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "rows": 2, "row_tokens": 256, "warmup_steps": 2,
    "adam_lr": 0.02,
}  # fmt: skip
MATRIX = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def old(tmp_path_factory, pocket_tokenizer):
    """The version before: random weights, as it would be served."""
    folder = tmp_path_factory.mktemp("models") / "old"
    model = target.new_model(TargetRecipe(**SIZES, start=None))
    checkpoint.publish(folder, model, pocket_tokenizer, TargetRecipe(**SIZES, start=None), [{"step": 0}])
    return folder


def recipe(old, **more) -> NextRecipe:
    sha256 = provenance.model_sha256(str(old), None)
    return NextRecipe(**SIZES | {"start": str(old), "start_sha256": sha256, "rank": 2, "steps": 12} | more)


def train(folder, asked):
    return loop.train(asked, folder / "next", folder / "scratch", report=lambda line: None)


@pytest.fixture(scope="module")
def trained(old, tmp_path_factory):
    """A folder with `next`, the difference after twelve steps, and the log's last row."""
    folder = tmp_path_factory.mktemp("trained")
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "LOG_STEPS", 4)
        return folder, train(folder, recipe(old))


@pytest.fixture(scope="module")
def copy(old, trained):
    folder, _ = trained
    return next_version.copy(old, folder / "next", folder / "build" / "new")


def test_only_the_difference_learns_and_at_first_it_is_none(old, tmp_path):
    asked = recipe(old)
    model, _ = asked.begin(tmp_path)
    before = Qwen3ForCausalLM.from_pretrained(old, dtype=torch.float32)
    ids = torch.arange(4, 20)[None]
    torch.testing.assert_close(model(ids).logits, before(ids).logits)
    learns = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(learns) == 2 * 7 * 2  # two factors for each of seven matrices in two layers
    (adam,) = loop.optimizers(model, asked)
    assert sum(len(group["params"]) for group in adam.param_groups) == len(learns)


def test_it_learns_new_traffic_and_ships_a_difference(old, trained):
    folder, last = trained
    assert {path.name for path in (folder / "next").iterdir()} == {FILE, "recipe.json", "training.csv"}
    assert set(last) >= {"sql_loss", "json_loss", "prose_loss"}
    rows = (folder / "next" / "training.csv").read_text().splitlines()
    column = rows[0].split(",").index("train")
    losses = [float(row.split(",")[column]) for row in rows[1:]]
    assert losses[-1] < losses[0]
    learnt = load_file(folder / "next" / FILE)
    assert len(learnt) == 2 * 7 * 2
    assert {tensor.dtype for tensor in learnt.values()} == {torch.bfloat16}
    assert json.loads((folder / "next" / "recipe.json").read_text())["start_sha256"]


def test_the_copy_is_the_version_before_plus_the_difference(old, trained, copy):
    folder, _ = trained
    before, after = (load_file(part / "model.safetensors") for part in (old, copy))
    learnt = load_file(folder / "next" / FILE)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"{name.removesuffix('.up')}.weight" for name in learnt if name.endswith(".up")}
    stem = MATRIX.removesuffix(".weight")
    wide = before[MATRIX].float() + learnt[f"{stem}.up"].float() @ learnt[f"{stem}.down"].float()
    torch.testing.assert_close(after[MATRIX].float(), wide, atol=1e-3, rtol=1e-2)


def test_the_copy_is_served_and_is_the_same_every_time(trained, old, copy, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(copy)
    assert model.config.num_hidden_layers == 2
    assert not {"quality.json", "recipe.json", "training.csv"} & {path.name for path in copy.iterdir()}
    again = next_version.copy(old, trained[0] / "next", tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (copy / "model.safetensors").read_bytes()


def test_an_interrupted_training_goes_on_with_the_same_difference(old, trained, tmp_path, monkeypatch):
    save, calls = checkpoint.save, []

    def stop(*arguments):
        save(*arguments)
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "LOG_STEPS", 4)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, recipe(old))
    train(tmp_path, recipe(old))
    one, two = (load_file(folder / "next" / FILE) for folder in (trained[0], tmp_path))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_difference_to_other_weights_is_refused_and_so_is_none(old, trained, tmp_path, pocket_tokenizer):
    other = tmp_path / "other"
    model = target.new_model(TargetRecipe(**SIZES, start=None, seed=1))
    checkpoint.publish(other, model, pocket_tokenizer, TargetRecipe(start=None), [{"step": 0}])
    with pytest.raises(ConfigError, match=r"the difference to other weights than .*other holds: train the"):
        next_version.copy(other, trained[0] / "next", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"has no difference.safetensors: train the next version first"):
        next_version.copy(old, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_products_are_added_in_one_order():
    base = {MATRIX: torch.zeros(1, 1, dtype=torch.float32)}
    stem = MATRIX.removesuffix(".weight")
    up = torch.tensor([[1e8, 1.0, -1e8]])
    learnt = {f"{stem}.up": up, f"{stem}.down": torch.ones(3, 1)}
    assert next_version.merged(base, learnt)[MATRIX].item() == 1.0
