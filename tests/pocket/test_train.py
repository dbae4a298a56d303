"""Each stage trains what it is called after, and puts it where the card and the plans look for it."""

import pytest

from specbook.pocket import draft, outputs, study, train
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
    monkeypatch.setattr(outputs, "hidden_states", lambda folder, answered, layers, out: "states")
    monkeypatch.setattr(draft, "train_head", train_head)
    return made


@pytest.mark.parametrize("kind", ["eagle3", "peagle"])
def test_a_head_lies_beside_its_target(heads, kind):
    train.run(kind, "cpu", lambda line: None)
    assert [(recipe.speculator_type, out) for recipe, out in heads] == [(kind, f"models/pocket-dense-{kind}")]


def test_a_studied_head_is_not_among_the_models(heads, monkeypatch):
    monkeypatch.setattr(study, "run", lambda train_one, report: train_one(BASE))
    train.run("study", "cpu", lambda line: None)
    assert heads == [(BASE, "build/train/study")]


def test_all_is_everything_that_is_served_and_the_card_but_no_study(monkeypatch):
    ran = []
    for stage in ("target", "eagle3", "peagle", "draft", "card", "study"):
        monkeypatch.setattr(train, f"_{stage}", lambda device, report, stage=stage: ran.append(stage))
    train.run("all", "cpu", lambda line: None)
    assert ran == ["target", "eagle3", "peagle", "draft", "card"]
