"""The permutation test of sampled answers: its level, its power, and what it refuses."""

import numpy as np
import pytest

from specbook.stats.equality import two_sample

PROMPTS, LENGTH, WORDS = 3, 6, 8


def _answers(rng, number, sharpness=1.0):
    """Chains of tokens, each drawn by the one before it; `sharpness` is one over the temperature."""
    logits = np.random.default_rng(5).normal(size=(PROMPTS, WORDS, WORDS)) * sharpness
    tables = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    drawn = []
    for table in tables:
        rows = np.zeros((number, LENGTH), dtype=int)
        for place in range(1, LENGTH):
            before = table[rows[:, place - 1]].cumsum(axis=1)
            rows[:, place] = (rng.random((number, 1)) < before).argmax(axis=1)
        drawn.append([tuple(row[1:]) for row in rows])
    return drawn


def _p_values(worlds, number, sharpness):
    rng = np.random.default_rng(11)
    return np.array(
        [
            two_sample(_answers(rng, number), _answers(rng, number, sharpness), 99, seed).p_value
            for seed in range(worlds)
        ]
    )


def test_equal_samplers_are_rejected_at_the_level():
    assert 0.02 <= (_p_values(200, 20, 1.0) <= 0.05).mean() <= 0.09  # 0.05 +- 2.6 standard errors


def test_a_deviation_is_seen_and_a_larger_one_more():
    seen = [(_p_values(60, 40, sharpness) <= 0.05).mean() for sharpness in (1.2, 2.0)]
    assert seen[0] < seen[1] > 0.9


def test_only_neighbours_differ():
    # Each place has both tokens equally often on both sides; only their order within an answer differs.
    alike, crossed = [(1, 1), (2, 2)] * 30, [(1, 2), (2, 1)] * 30
    assert two_sample([alike], [crossed]).p_value < 0.01


def test_the_same_answers_are_never_apart():
    same = _answers(np.random.default_rng(1), 10)
    assert two_sample(same, same).p_value == 1.0


def test_sides_of_unequal_size_keep_the_level():
    rng = np.random.default_rng(3)
    p = [two_sample(_answers(rng, 10), _answers(rng, 40), 99, seed).p_value for seed in range(150)]
    assert (np.array(p) <= 0.05).mean() <= 0.1


@pytest.mark.parametrize(("a", "b"), [([], []), ([[(1,)]], []), ([[(1,)]], [[]])])
def test_answers_must_be_there(a, b):
    with pytest.raises(ValueError, match="same prompts"):
        two_sample(a, b)
