"""Speculation arithmetic: known points, inverses, refusals."""

import numpy as np
import pytest

from specbook.stats import theory
from specbook.stats.theory import (
    alpha_from_acceptance_length,
    expected_acceptance_length,
    speedup,
    step_cost,
)


@pytest.mark.parametrize(("alpha", "k", "want"), [(0.0, 4, 1.0), (1.0, 4, 5.0), (0.5, 1, 1.5), (0.9, 0, 1.0)])
def test_expected_acceptance_length_at_known_points(alpha, k, want):
    assert expected_acceptance_length(alpha, k) == pytest.approx(want)


@pytest.mark.parametrize("alpha", [0.1, 0.6, 0.9])
def test_expected_acceptance_length_is_leviathans_closed_form(alpha):
    assert expected_acceptance_length(alpha, 5) == pytest.approx((1 - alpha**6) / (1 - alpha))


def test_iid_acceptance_agrees_with_a_simulation():
    accepted = np.random.default_rng(0).random((20_000, 5)) < 0.7
    length = 1 + np.cumprod(accepted, axis=1).sum(axis=1).mean()
    assert expected_acceptance_length(0.7, 5) == pytest.approx(length, rel=0.02)


@pytest.mark.parametrize(("k", "want"), [(0, 1.0), (1, 1.1), (5, 1.5)])
def test_each_draft_token_is_paid_for(k, want):
    assert step_cost(k, 0.1) == pytest.approx(want)


@pytest.mark.parametrize(
    ("alpha", "draft_cost", "want"), [(0.0, 0.1, 0), (1.0, 0.1, 8), (0.9, 0.0, 8), (0.3, 0.5, 0)]
)
def test_best_k_at_the_extremes(alpha, draft_cost, want):
    assert theory.best_k_of(equal(alpha, 8), draft_cost) == want


def test_best_k_falls_as_drafting_gets_dearer():
    found = [theory.best_k_of(equal(0.8, 16), cost) for cost in (0.01, 0.05, 0.2, 0.5)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def equal(alpha, k):
    """Joint acceptance where each position is as likely as the next."""
    return [alpha**i for i in range(1, k + 1)]


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.8, 1.0])
@pytest.mark.parametrize("k", [1, 5, 12])
def test_alpha_is_recovered_from_the_length(alpha, k):
    assert alpha_from_acceptance_length(expected_acceptance_length(alpha, k), k) == pytest.approx(
        alpha, abs=1e-6
    )


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (expected_acceptance_length, (1.1, 3)),
        (expected_acceptance_length, (0.5, -1)),
        (step_cost, (3, -0.1)),
        (step_cost, (3, 0.1, 0.0)),
        (speedup, (5.1, 4, 0.1)),
        (speedup, (0.9, 4, 0.1)),
        (alpha_from_acceptance_length, (3.5, 2)),
        (alpha_from_acceptance_length, (1.0, 0)),
    ],
)
def test_impossible_arguments_are_refused(function, args):
    with pytest.raises(ValueError, match=r"need|lie"):
        function(*args)


def test_acceptance_length_from_positions_adds_the_bonus_token():
    assert theory.acceptance_length([0.8, 0.5, 0.2], 2) == pytest.approx(2.3)
    assert theory.acceptance_length([0.8], 0) == 1.0


@pytest.mark.parametrize(
    ("joint", "k", "message"),
    [
        ([0.5, 0.6], 2, r"rises from 0.5 to 0.6 at position 2: joint acceptance cannot"),
        ([1.2], 1, "position 1 is 1.2"),
        ([0.5], 2, "0 <= k <= 1"),
    ],
)
def test_acceptance_that_cannot_be_joint_is_refused(joint, k, message):
    with pytest.raises(ValueError, match=message):
        theory.acceptance_length(joint, k)


def test_best_k_is_none_where_positions_are_hardly_accepted():
    assert theory.best_k_of([0.1, 0.05], draft_cost=0.5) == 0


def test_break_even_batch_lies_between_the_two_that_surround_it():
    assert theory.break_even_batch([1, 8, 64], [2.0, 1.5, 0.5]) == pytest.approx(8 * 8**0.5)
    assert theory.break_even_batch([1, 8], [1.0, 0.9]) == pytest.approx(1)
    assert theory.break_even_batch([1, 8], [2.0, 1.5]) is None
    assert theory.break_even_batch([1, 8], [0.9, 0.5]) is None
    with pytest.raises(ValueError, match="have to rise"):
        theory.break_even_batch([8, 1], [2.0, 0.5])
