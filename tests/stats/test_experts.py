"""Experts touched: the formula, and the count of a router's choices."""

import itertools

import numpy as np
import pytest

from specbook.stats import experts


@pytest.mark.parametrize(
    ("sizes", "want"),
    [((8, 2, 1), 2.0), ((8, 2, 2), 3.5), ((8, 8, 1), 8.0), ((128, 8, 1), 8.0), ((8, 2, 1000), 8.0)],
)
def test_touched_at_known_points(sizes, want):
    assert experts.touched(*sizes) == pytest.approx(want)


@pytest.mark.parametrize("wrong", [(2, 3, 1), (8, 0, 1), (8, 2, 0), (0, 0, 1)])
def test_experts_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"need 1 <= num_experts_per_token <= num_experts"):
        experts.touched(*wrong)


def independent(sequences, positions, seed=0):
    """Choices of two of eight experts at random, in three layers."""
    rng = np.random.default_rng(seed)
    scores = rng.random((sequences, positions, 3, 8))
    return scores >= np.sort(scores, axis=-1)[..., -2:-1]


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (1, 6), (4, 1), (4, 6)])
def test_the_count_of_independent_routing_is_the_formula(batch, tokens):
    touching = np.stack([experts.shares(one, tokens) for one in independent(8, 3000)])
    assert touching.shape == (8, 3, 8)
    assert experts.together(touching, batch) == pytest.approx(experts.touched(8, 2, batch * tokens), rel=0.01)


def test_tokens_that_agree_touch_no_more_than_one_does():
    (same,) = np.repeat(independent(1, 1), 12, axis=1)
    assert experts.together(np.stack([experts.shares(same, 6)] * 5), 4) == pytest.approx(2)


def test_the_mean_is_over_every_choice_of_sequences():
    touching = np.random.default_rng(0).random((5, 2, 8))
    for batch in (1, 2, 3, 5):
        each = [
            (1 - np.prod([1 - touching[i] for i in chosen], axis=0)).sum(axis=-1).mean()
            for chosen in itertools.combinations(range(5), batch)
        ]
        assert experts.together(touching, batch) == pytest.approx(np.mean(each))


def test_a_rest_too_short_for_a_step_is_left_out():
    (one,) = independent(1, 11)
    assert (experts.shares(one, 4) == experts.shares(one[:8], 4)).all()


@pytest.mark.parametrize("tokens", [0, 5])
def test_steps_longer_than_the_stream_are_refused(tokens):
    with pytest.raises(ValueError, match=r"need 1 <= tokens <= 4, the positions given"):
        experts.shares(independent(1, 4)[0], tokens)


@pytest.mark.parametrize("batch", [0, 4])
def test_more_sequences_than_there_are_share_no_step(batch):
    with pytest.raises(ValueError, match=r"need 1 <= batch <= 3, the sequences given"):
        experts.together(np.zeros((3, 1, 8)), batch)
