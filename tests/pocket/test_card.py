"""The card says what lies beside the weights, and nothing else."""

import json

import pytest
import torch
from safetensors.torch import save_file

from pocket import card, quality
from pocket.corpus import DOMAINS
from pocket.quality import DomainQuality
from specbook.bench import provenance
from specbook.stats import wilson


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A dense model with everything, a head with a recipe alone, and a folder that is no model."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    for name in ("pocket-dense", "pocket-dense-eagle3", "heldout"):
        (tmp_path / "models" / name).mkdir(parents=True)
    for name, recipe in (
        ("pocket-dense", {"steps": 1400, "seed": 7}),
        ("pocket-dense-eagle3", {"epochs": 5}),
    ):
        save_file(
            {"a": torch.zeros(1000, 1000), "b": torch.zeros(500_000)},
            tmp_path / "models" / name / "model.safetensors",
        )
        (tmp_path / "models" / name / "recipe.json").write_text(json.dumps(recipe))
    dense = tmp_path / "models" / "pocket-dense"
    rows = "".join(f"{step},{step * 100},{9 / step:.2f}\n" for step in range(1, 36))
    (dense / "training.csv").write_text("step,tokens,train\n" + rows)
    half = DomainQuality(
        passed=wilson(64, 128), stopped=wilson(128, 128), looped=wilson(0, 128),
        mean_output_tokens=61.4,
    )  # fmt: skip
    quality.save(dict.fromkeys(DOMAINS, half), dense)
    return tmp_path / "models"


def test_the_card_gives_size_digest_recipe_and_quality(models):
    text = card.write().read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## pocket-dense",
        "## pocket-dense-eagle3",
    ]
    assert text.count("- Parameters stored: 1.5 M, 6.0 MB") == 2
    assert provenance.model_sha256("models/pocket-dense", None)[:16] in text
    assert "`steps=1400`, `seed=7`" in text
    assert "| `json` | 128 | 50% [41%, 59%] | 100% [97%, 100%] | 0% [0%, 3%] | 61 |" in text
    assert text.count("| `json` | 128") == 1


def test_the_curve_is_thinned_and_keeps_its_ends(models):
    steps = [
        line.split("|")[1].strip() for line in card.write().read_text().splitlines() if line.count("|") == 4
    ]
    assert (steps[0], steps[2], steps[-1]) == ("step", "1", "35")
    assert len(steps) <= 2 + 13


def test_a_heads_curve_says_how_far_guesses_are_right(models):
    parts = [f"loss_{i}_epoch,full_acc_{i}_epoch,cond_acc_{i}_epoch" for i in range(4)]
    head = models / "pocket-dense-eagle3" / "training.csv"
    head.write_text(f"epoch,{','.join(parts)},loss_epoch\n1{',0.5,0.8,0.9' * 4},2.0\n")
    (line,) = [line for line in card.write().read_text().splitlines() if line.startswith("| epoch")]
    names = [name.strip() for name in line.strip("|").split("|")]
    assert names == ["epoch", "right to 1", "right to 2", "right to 3", "right to 4", "loss"]


def test_tables_are_rectangular(models):
    for block in card.write().read_text().split("\n\n"):
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1, block


def test_without_models_there_is_a_card_without_sections(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models").mkdir()
    assert "## " not in card.write().read_text()


def test_a_difference_says_what_it_is_the_difference_to(models):
    folder = models / "pocket-dense-next"
    folder.mkdir()
    save_file({"a.up": torch.zeros(500, 8)}, folder / "difference.safetensors")
    (folder / "recipe.json").write_text(json.dumps({"start": "models/pocket-dense", "rank": 8}))
    section = card.write().read_text().partition("## pocket-dense-next")[2]
    assert "- Parameters stored: 0.0 M, 0.0 MB" in section
    assert "the difference to `models/pocket-dense` alone: `specbook train next-copy` adds it" in section
    assert provenance.model_sha256("models/pocket-dense-next", None)[:16] in section
