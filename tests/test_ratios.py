"""The speed-up's interval: known points, symmetry, and the coverage it claims, by simulation."""

import numpy as np
import pytest
from scipy import stats

from specbook import ratios
from specbook.ratios import geometric_mean_ci, ratio_ci, ratio_of_sums_ci

TRUE_RATIO, TRIALS = 2.0, 300
NOISE = {  # zero-mean draws of log-ratio noise
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(3, size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1.0,
}


def covers(interval, noise: str, n: int) -> float:
    """Share of TRIALS data sets whose interval holds the true ratio."""
    rng = np.random.default_rng(n)
    draws = [TRUE_RATIO * np.exp(0.05 * NOISE[noise](rng, n)) for _ in range(TRIALS)]
    ends = [interval(draw) for draw in draws]
    return float(np.mean([low <= TRUE_RATIO <= high for low, high in ends]))


def studentized(draw):
    got = ratio_ci(draw, np.ones_like(draw))
    return got.low, got.high


def percentile(draw):
    found = stats.bootstrap(
        (np.log(draw),), np.mean, method="percentile", n_resamples=999, rng=np.random.default_rng(0)
    )
    return np.exp(found.confidence_interval)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_covers_nearly_as_often_as_it_claims(monkeypatch, noise, n):
    monkeypatch.setattr(ratios, "RESAMPLES", 1999)
    # Three restarts cannot show that their noise is skewed: no method at n = 3 can, so the floor is lower
    # there.
    assert covers(studentized, noise, n) >= (0.85 if n == 3 else 0.90)


def test_the_percentile_bootstrap_would_not():
    assert covers(percentile, "normal", 5) < 0.90


@pytest.mark.parametrize(
    ("n", "method"), [(1, "none"), (2, "none"), (3, "student-t"), (4, "student-t"), (5, "bootstrap-t")]
)
def test_the_method_follows_from_n_alone(n, method):
    got = ratio_ci(np.linspace(2.0, 2.4, n), np.ones(n))
    assert got.method == method
    assert (got.low is None) == (method == "none")


def test_known_points():
    assert ratio_ci([2.0, 8.0], [1.0, 1.0]).value == pytest.approx(4.0)
    same = ratio_ci([3.0] * 5, [1.5] * 5)
    assert (same.low, same.value, same.high) == pytest.approx((2.0, 2.0, 2.0))
    t = ratio_ci(np.exp([0.9, 1.0, 1.1]), np.ones(3))  # sd 0.1, t(0.975, 2) = 4.303
    assert np.log([t.low, t.high]) == pytest.approx([1 - 0.2484, 1 + 0.2484], abs=1e-4)


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0, 2.0, 2.2], [2.26, 1.93, 1.86, 3.57, 1.84]])
def test_values_nearly_alike_but_one_do_not_send_an_end_off(values):
    got = ratio_ci(values, np.ones(5))
    student = ratio_ci(values[:3] + values[4:], np.ones(4)).method
    assert (got.method, student) == ("bootstrap-t", "student-t")
    assert got.low < got.value < got.high < 2.5 * got.value


def test_swapping_the_arms_inverts_the_estimate():
    a, b = [4.1, 4.4, 3.9, 4.6, 4.0, 4.2], [2.0, 2.1, 1.9, 2.0, 2.1, 2.2]
    forth, back = ratio_ci(a, b), ratio_ci(b, a)
    assert (back.value, back.low, back.high) == pytest.approx(
        (1 / forth.value, 1 / forth.high, 1 / forth.low), rel=0.01
    )


def test_pairing_removes_what_both_arms_shared():
    machine = np.array([1.0, 0.6, 0.9, 0.5, 0.8])  # a noisy neighbour slows both arms of a restart
    got = ratio_ci(2.0 * machine * [1.01, 0.99, 1.0, 1.01, 0.99], machine)
    assert got.high - got.low < 0.1


def test_geometric_mean_keeps_its_unit():
    assert geometric_mean_ci([100.0, 400.0, 200.0]).value == pytest.approx(200.0)


def test_ratio_of_sums_is_micro_and_covers(monkeypatch):
    monkeypatch.setattr(ratios, "RESAMPLES", 1999)
    assert ratio_of_sums_ci([1.0, 30.0], [1.0, 10.0]).value == pytest.approx(31 / 11)
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        drafts = rng.integers(50, 400, size=8)
        got = ratio_of_sums_ci(rng.poisson(2.5 * drafts), drafts)
        hits += got.low <= 2.5 <= got.high
    assert hits >= 180


@pytest.mark.parametrize(
    ("a", "b"), [([1.0, 0.0], [1.0, 1.0]), ([1.0], [1.0, 2.0]), ([], []), ([1.0], [-1.0])]
)
def test_ratios_of_unpaired_or_nonpositive_values_are_refused(a, b):
    with pytest.raises(ValueError, match=r"positive|non-empty"):
        ratio_ci(a, b)


def test_ratio_of_sums_refuses_an_empty_denominator():
    with pytest.raises(ValueError, match="denominators must be positive"):
        ratio_of_sums_ci([1.0, 2.0], [1.0, 0.0])
