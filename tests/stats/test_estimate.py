"""Estimates and shares: known points, refusals."""

import numpy as np
import pytest

from specbook.stats.estimate import Estimate, finite, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (98, 100, 0.9300, 0.9945)],
)
def test_wilson_at_known_points(successes, n, low, high):
    got = wilson(successes, n)
    assert (got.low, got.high) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [[1.0]], [np.inf]])
def test_values_must_be_finite_and_one_dimensional(values):
    with pytest.raises(ValueError, match="must be 1-D"):
        finite(values, "values")


def test_an_estimate_says_what_n_counts():
    made = Estimate(value=2.314, low=2.2, high=2.44, n=5, unit_of_n="restarts", method="student-t")
    assert made.format("x") == "2.31x [2.20, 2.44], n=5 restarts"
    assert made.model_copy(update={"low": None, "n": 1}).format("x") == "2.31x (no interval), n=1 restart"


def test_a_function_that_falls_exchanges_the_ends():
    made = Estimate(value=2.0, low=1.0, high=4.0, n=3, unit_of_n="restarts", method="student-t")
    found = made.through(lambda rate: 1 / rate)
    assert (found.value, found.low, found.high) == (0.5, 0.25, 1.0)
    bare = made.model_copy(update={"low": None, "high": None}).through(lambda rate: 1 / rate)
    assert (bare.value, bare.low, bare.high) == (0.5, None, None)


def estimate(low, high):
    return Estimate(value=1.0, low=low, high=high, n=6, unit_of_n="turns", method="student-t")


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [
        (1.1, 1.3, "above"),
        (0.9, 1.3, "within"),
        (1.0, 1.3, "within"),
        (0.8, 0.9, "below"),
        (None, None, None),
    ],
)
def test_an_interval_lies_beside_a_value_or_holds_it(low, high, side):
    assert estimate(low, high).side() == side


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [(2.1, 3.0, "above"), (1.9, 3.0, "within"), (0.1, 0.9, "below"), (None, None, None)],
)
def test_two_intervals_overlap_or_one_lies_beyond(low, high, side):
    assert estimate(low, high).beside(estimate(1.0, 2.0)) == side
    assert estimate(1.0, 2.0).beside(estimate(None, None)) is None
