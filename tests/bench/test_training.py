"""The experiment on training: a stage runs where nothing was made before, and its steps are timed."""

import pytest

from specbook import paths
from specbook.bench.experiments.training import Training, time_training
from specbook.errors import ConfigError


def test_a_stage_is_timed_in_a_copy_of_the_project():
    result = time_training(Training(stage="next-copy"))
    assert [step.name for step in result.steps] == [
        "next-copy: starting",
        "next-copy: ./build/pocket-dense-next",
    ]
    assert result.steps[0].seconds > 0
    weights = paths.models_dir() / "pocket-dense" / "model.safetensors"
    assert result.disk_bytes > weights.stat().st_size  # the copy has the dense target's size, and a tokenizer
    assert result.peak_rss_bytes > weights.stat().st_size
    assert not list(paths.scratch("logs").glob("training-*"))


def test_a_stage_writes_no_model_of_the_project():
    card = paths.models_dir() / "card.md"
    before = card.stat()
    result = time_training(Training(stage="card"))
    assert result.steps[-1].name == "card: models/card.md"
    assert card.stat() == before


def test_a_stage_that_fails_says_why():
    with pytest.raises(ConfigError, match=r"train crad. failed: .*crad.*did you mean 'card'"):
        time_training(Training(stage="crad"))
