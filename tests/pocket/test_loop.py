"""The training loop: a tiny target learns, and neither an interruption nor workers change what comes out."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from pocket import checkpoint, loop, loss, target
from pocket.target import TargetRecipe
from specbook.errors import ConfigError
from tiny import TINY


@pytest.fixture
def quick(monkeypatch, pocket_tokenizer):
    """A checkpoint comes every four steps."""
    torch.set_num_threads(1)
    monkeypatch.setattr(target, "build_tokenizer", lambda seed: pocket_tokenizer)
    monkeypatch.setattr(loop, "LOG_STEPS", 4)


def train(folder, recipe=TINY, **more):
    return loop.train(recipe, folder / "out", folder / "scratch", report=lambda line: None, **more)


# the learning rate


def test_learning_rate_warms_up_holds_and_falls_to_nothing():
    recipe = TargetRecipe(steps=100, warmup_steps=10, decay_share=0.2)
    scale = [loop.lr_scale(step, recipe) for step in range(100)]
    assert scale[0] == pytest.approx(0.1)
    assert scale[9:81] == [1.0] * 72
    assert scale[-1] == pytest.approx(1 / 20)
    assert (np.diff(scale[:10]) > 0).all()
    assert (np.diff(scale[80:]) < 0).all()


def test_the_held_part_does_not_depend_on_the_number_of_steps():
    short, long = (TargetRecipe(steps=steps) for steps in (1000, 2400))
    for step in range(600):
        assert loop.lr_scale(step, short) == loop.lr_scale(step, long)


def test_no_warm_up_and_no_decay_are_allowed():
    recipe = TargetRecipe(steps=3, warmup_steps=0, decay_share=0)
    assert [loop.lr_scale(step, recipe) for step in range(3)] == [1.0] * 3


# the optimizers


def test_every_parameter_has_one_optimizer():
    model = target.new_model(TINY)
    muon, adam = loop.optimizers(model, TINY)
    muons, adams = ({id(p) for g in o.param_groups for p in g["params"]} for o in (muon, adam))
    assert not muons & adams
    assert muons | adams == {id(p) for p in model.parameters()}
    assert id(model.model.embed_tokens.weight) in adams
    assert id(model.model.layers[0].mlp.up_proj.weight) in muons


# training


@pytest.mark.usefixtures("quick")
def test_a_tiny_target_learns_and_can_be_served(tmp_path):
    last = train(tmp_path)
    out = tmp_path / "out"
    with (out / "training.csv").open() as file:
        log = list(csv.DictReader(file))
    assert [int(row["step"]) for row in log] == [4, 8, 12]
    assert float(log[-1]["math_loss"]) < float(log[0]["math_loss"])
    assert float(log[-1]["train"]) < float(log[0]["train"]) < 9.5
    assert log[-1] == {name: str(value) for name, value in last.items()}
    assert json.loads((out / "recipe.json").read_text()) == TINY.model_dump()
    assert {w.dtype for w in load_file(out / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((out / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    assert AutoTokenizer.from_pretrained(out).eos_token_id == 2
    assert str(tmp_path) not in "".join(path.read_text() for path in out.glob("*.json"))


def interrupted_after(saves):
    """`checkpoint.save`, and Ctrl-C right after it was called so often."""
    save, left = checkpoint.save, [saves]

    def stop(*arguments):
        save(*arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    return stop


@pytest.mark.usefixtures("quick")
def test_an_interrupted_training_ends_at_the_same_place(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", interrupted_after(2))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts")
    assert not (tmp_path / "parts" / "out").exists()
    resumed = train(tmp_path / "parts")
    assert {**resumed, "hours": 0} == {**whole, "hours": 0}
    one, two = (load_file(tmp_path / run / "out" / "model.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.usefixtures("quick")
def test_a_finished_training_is_not_repeated(tmp_path, monkeypatch):
    recipe = TINY.model_copy(update={"steps": 2})
    first = train(tmp_path, recipe)
    monkeypatch.setattr(loop, "_step", None)
    assert train(tmp_path, recipe) == first


@pytest.mark.usefixtures("quick")
def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    short = TINY.model_copy(update={"steps": 2})
    train(tmp_path, short)
    with pytest.raises(ConfigError, match=r"has another muon_lr: remove it"):
        train(tmp_path, short.model_copy(update={"muon_lr": 0.5}))
    assert train(tmp_path, short.model_copy(update={"steps": 3}))["step"] == 3


def test_workers_share_the_rows_and_the_gradients_add_up(monkeypatch):
    monkeypatch.setattr(loss, "fast_bfloat16", lambda device: False)  # it rounds sums of rows differently
    model = target.new_model(TINY)
    ids = torch.randint(4, 4096, (3, 16), generator=torch.Generator().manual_seed(0))
    mask = loss.attention_mask(torch.zeros_like(ids))
    positions, weights = (
        torch.arange(16).expand(3, 16),
        torch.rand(3, 16, generator=torch.Generator().manual_seed(1)),
    )
    grads, losses = [], []
    for workers in (1, 2, 3):
        with ThreadPoolExecutor(workers) as pool:
            losses.append(loop._backward(pool, workers, model, (ids, mask, positions, ids, weights), TINY))
        grads.append([p.grad.clone() for p in model.parameters()])
        model.zero_grad()
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-5)
    for other in grads[1:]:
        for one, two in zip(grads[0], other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-3)
