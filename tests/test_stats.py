"""Quantiles, medians and shares: known points, the sample-size rule, coverage, refusals."""

import numpy as np
import pytest

from specbook.estimate import Estimate
from specbook.stats import enough_for, finite, quantile, wilson


@pytest.mark.parametrize(
    ("q", "n", "want"),
    [(0.99, 500, True), (0.99, 499, False), (0.95, 100, True), (0.95, 99, False), (0.9, 50, True),
     (0.5, 10, True), (0.5, 9, False), (0.01, 500, True), (0.99, 0, False)],
)  # fmt: skip
def test_a_percentile_needs_five_expected_samples_beyond_it(q, n, want):
    assert enough_for(q, n) is want


@pytest.mark.parametrize(("q", "n"), [(0.0, 10), (1.0, 10), (99, 10), (0.5, -1)])
def test_enough_for_refuses_what_is_no_quantile(q, n):
    with pytest.raises(ValueError, match=r"need 0 < q < 1"):
        enough_for(q, n)


def test_quantile_interval_is_the_binomial_order_statistics():
    got = quantile(np.arange(1, 101), 0.5)  # ranks 40 and 61: Conover's table for n = 100
    assert (got.value, got.ci_low, got.ci_high, got.enough) == (50.5, 40.0, 61.0, True)


def test_the_upper_end_of_a_p99_is_absent_until_the_largest_sample_can_bound_it():
    assert quantile(np.arange(367), 0.99).ci_high is None
    assert quantile(np.arange(368), 0.99).ci_high == 367.0


def test_quantile_interval_covers_a_skewed_tail():
    rng, truth = np.random.default_rng(0), -np.log(0.05)
    found = [quantile(rng.exponential(size=100), 0.95) for _ in range(300)]
    covered = [q.ci_low <= truth and (q.ci_high is None or truth <= q.ci_high) for q in found]
    assert np.mean(covered) > 0.93


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
    made = Estimate(value=2.314, low=2.2, high=2.44, n=5, unit_of_n="restarts", method="bootstrap-t")
    assert made.format("x") == "2.31x [2.20, 2.44], n=5 restarts"
    assert made.model_copy(update={"low": None, "n": 1}).format("x") == "2.31x (no interval), n=1 restart"
