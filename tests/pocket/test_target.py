"""What a target's training starts from: a seed's model, or the weights of an older commit."""

import subprocess

import pytest
import torch

from pocket import target
from specbook.errors import ConfigError
from tiny import TINY


def test_the_same_seed_gives_the_same_model():
    one, two = (target.new_model(TINY).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=folder, check=True)


def test_training_goes_on_from_an_older_commits_weights(tmp_path, monkeypatch, pocket_tokenizer):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    old = target.new_model(TINY)
    old.save_pretrained(tmp_path / "models" / "old")
    pocket_tokenizer.save_pretrained(tmp_path / "models" / "old")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "old")
    recipe = TINY.model_copy(update={"start": "HEAD:models/old"})
    (tmp_path / "scratch").mkdir()
    model, tokenizer = target.starting_point(recipe, tmp_path / "scratch")
    assert all(torch.equal(w, old.state_dict()[name]) for name, w in model.state_dict().items())
    assert tokenizer.get_vocab() == pocket_tokenizer.get_vocab()
    with pytest.raises(ConfigError, match="git has no 'HEAD:models/new'"):
        target.starting_point(TINY.model_copy(update={"start": "HEAD:models/new"}), tmp_path / "scratch")
