"""The depth study trains what its table lacks, one change at a time, and writes down what came out."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from pocket import card, study


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A trainer that is right more seldom the deeper it guesses; yields it and the recipes it was given."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models").mkdir()
    recipes = []
    weights = {"embed_tokens.weight": torch.zeros(500, 100), "fc.weight": torch.zeros(300, 100)}
    save_file(weights, tmp_path / "model.safetensors")
    sizes = {"draft_vocab_size": 500, "transformer_layer_config": {"hidden_size": 100}}
    (tmp_path / "config.json").write_text(json.dumps(sizes))

    def train(recipe):
        recipes.append(recipe)
        depths = range(recipe.num_depths)
        names = ",".join(f"position_{d}_acc_epoch" for d in depths)
        better = 0.01 * len(recipes) * bool(recipe.seed or recipe.num_layers > 4)
        shares = ",".join(f"{0.9 - 0.05 * d + better:.2f}" for d in depths)
        (tmp_path / "training.csv").write_text(f"epoch,{names}\n1,{names}\n2,{shares}\n")
        return tmp_path

    return train, recipes


def with_output(folder):
    """The same head, had it trained the output matrix that its target lent it."""
    held = load_file(folder / "model.safetensors")
    save_file(held | {study.OUTPUT: torch.zeros(500, 100)}, folder / "model.safetensors")
    return folder


def test_every_variant_is_its_own_change_of_the_base():
    recipes = [study.BASE.model_copy(update=change) for change in study.VARIANTS.values()]
    assert len({r.model_dump_json() for r in recipes}) == len(study.VARIANTS)
    assert recipes[0] == study.BASE
    for recipe in recipes:
        assert type(recipe).model_validate(recipe.model_dump()) == recipe


def test_rows_are_the_last_epochs_up_to_a_heads_depth(trained):
    train, recipes = trained
    study.run(train, lambda line: None)
    rows = {row["variant"]: row for row in study.load()}
    assert list(rows) == list(study.VARIANTS)
    assert (rows["2 layers"]["position_0"], rows["2 layers"]["position_7"]) == ("0.90", "0.55")
    # What is looked up is not read, what the target lends is.
    assert {row["read_m"] for row in rows.values()} == {"0.08"}
    assert (rows["2 layers"]["position_11"], rows["depth 12"]["position_11"]) == ("", "0.35")
    assert [r.num_layers for r in recipes] == [
        change.get("num_layers", 4) for change in study.VARIANTS.values()
    ]
    assert study.row_of("own output", with_output(train(study.BASE)), 60)["read_m"] == 0.08


def test_rows_keep_the_order_of_the_variants(trained):
    study.run(trained[0], lambda line: None)
    head, *rows = study.path().read_text().splitlines(keepends=True)
    study.path().write_text(head + "".join(reversed(rows)))
    assert [row["variant"] for row in study.load()] == list(study.VARIANTS)


def test_what_was_trained_is_not_trained_again(trained):
    train, recipes = trained

    def stops(recipe):
        if len(recipes) == 2:
            raise KeyboardInterrupt
        return train(recipe)

    with pytest.raises(KeyboardInterrupt):
        study.run(stops, lambda line: None)
    assert len(study.load()) == 2
    study.run(train, lambda line: None)
    assert len(recipes) == len(study.load()) == len(study.VARIANTS)


def test_the_card_shows_the_study_once_there_is_one(trained):
    assert "Depth study" not in card.write().read_text()
    study.run(trained[0], lambda line: None)
    text = card.write().read_text()
    assert "## Depth study" in text
    assert text.count("| depth 16 |") == 1
    assert "reads, M" in text
    assert "in the mean: +6.0 6 layers; +0.0 grown" in text
    assert "Another seed alone makes +2.0:" in text
