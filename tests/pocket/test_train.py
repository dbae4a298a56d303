"""Each stage trains what it is called after, and puts it where the card and the plans look for it."""

import pytest

from specbook.pocket import draft, outputs, quality, study, target, train
from specbook.pocket.study import BASE


@pytest.fixture
def heads(tmp_path, monkeypatch):
    """Heads are trained in no time; yields the recipe and the folder of each, relative to the project."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models").mkdir()
    made = []

    def train_head(folder, data, recipe, scratch, out):
        assert data == "states"
        made.append((recipe, str(out.relative_to(tmp_path))))
        return out

    monkeypatch.setattr(outputs, "greedy_outputs", lambda target, recipe, out: "answers")
    monkeypatch.setattr(outputs, "hidden_states", lambda folder, answered, layers, out, noise: "states")
    monkeypatch.setattr(draft, "train_head", train_head)
    return made


@pytest.mark.parametrize("kind", ["eagle3", "peagle"])
@pytest.mark.parametrize(("prefix", "target"), [("", "pocket-dense"), ("moe-", "pocket-moe")])
def test_a_head_lies_beside_its_target(heads, prefix, target, kind):
    train.run(prefix + kind, "cpu", lambda line: None)
    assert [(recipe.speculator_type, out) for recipe, out in heads] == [(kind, f"models/{target}-{kind}")]


def test_the_mixture_of_experts_starts_from_the_dense_weights_as_they_are(tmp_path, monkeypatch):
    dense = tmp_path / "models" / "pocket-dense"
    dense.mkdir(parents=True)
    made = []
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setattr(target, "train", lambda recipe, out, *rest: made.append((recipe, out)))
    monkeypatch.setattr(quality, "measure", lambda served: served)
    monkeypatch.setattr(quality, "save", lambda served, folder: made.append((served.model, folder)))
    for weights in (b"old", b"new"):
        (dense / "model.safetensors").write_bytes(weights)
        train.run("moe", "cpu", lambda line: None)
    (old, out), measured, (new, _), _ = made
    assert out == tmp_path / "models" / "pocket-moe"
    assert measured == ("models/pocket-moe", out)
    assert old.start == new.start == "models/pocket-dense"
    assert old.start_sha256 != new.start_sha256


def test_a_head_of_each_noise_lies_beside_the_mixtures_other_heads(heads):
    train.run("moe-noise", "cpu", lambda line: None)
    assert [(recipe.router_noise, out) for recipe, out in heads] == [
        (strength, f"models/pocket-moe-eagle3-noise-{strength:g}") for strength in (0.25, 0.5, 1, 2, 4)
    ]


def test_a_studied_head_is_not_among_the_models(heads, monkeypatch):
    monkeypatch.setattr(study, "run", lambda train_one, report: train_one(BASE))
    train.run("study", "cpu", lambda line: None)
    assert heads == [(BASE, "build/train/study")]


def test_all_is_everything_that_is_served_and_the_card_but_no_study(monkeypatch):
    ran = []
    served = ["target", "eagle3", "peagle", "draft", "moe", "moe_eagle3", "moe_peagle", "card"]
    for stage in (*served, "study"):
        monkeypatch.setattr(train, f"_{stage}", lambda device, report, stage=stage: ran.append(stage))
    train.run("all", "cpu", lambda line: None)
    assert ran == served
