"""The speed-up's interval: known points, symmetry, and the coverage it claims, by simulation."""

import re

import numpy as np
import pytest
from scipy import stats

import noise
from specbook import paths
from specbook.stats.ratios import geometric_mean_ci, ratio_ci, ratio_of_sums_ci

pytestmark = pytest.mark.usefixtures("only_shipped")
TRIALS, RESAMPLES = 1000, 499
COVERS, NEVER_MORE, SKEWED = 0.93, 0.98, 0.90
"""What the method page promises of 95 % intervals; `SKEWED`: less than this where noise has one tail only."""
WORLDS = {
    "seconds apart": lambda rng, n: noise.log_ratios(rng, TRIALS, n, apart_s=10.0),
    "minutes apart": lambda rng, n: noise.log_ratios(rng, TRIALS, n, apart_s=180.0),
    "no stalls": lambda rng, n: noise.log_ratios(rng, TRIALS, n, apart_s=180.0, stalls=0.0),
    "shipped records": lambda rng, n: rng.choice(noise.shipped_log_ratios(), (TRIALS, n)),
    "heavy tails": lambda rng, n: rng.standard_t(3, (TRIALS, n)),
}


def student(logs):
    """The interval of the package, on every row of `logs` [trials, n]."""
    found = [ratio_ci(np.exp(row), np.ones(len(row))) for row in logs]
    return np.log([one.low for one in found]), np.log([one.high for one in found])


def bootstrap_t(logs):
    """The rival: a studentized bootstrap, a twentieth of each resample's variance taken from the sample's."""
    n = logs.shape[1]
    rows = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    mean, error, drawn = logs.mean(1), logs.std(1, ddof=1), logs[:, rows]
    spread = np.sqrt(0.95 * drawn.var(2, ddof=1) + 0.05 * error[:, None] ** 2)
    low, high = np.quantile((drawn.mean(2) - mean[:, None]) / spread, [0.025, 0.975], axis=1)
    return mean - high * error, mean - low * error


def covers(ends, truth: float = 0.0) -> float:
    return float(np.mean((ends[0] <= truth) & (truth <= ends[1])))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("n", [3, 5, 7])
def test_the_interval_covers_as_often_as_the_method_page_says(world, n):
    assert COVERS <= covers(student(WORLDS[world](np.random.default_rng(n), n))) <= NEVER_MORE


@pytest.mark.parametrize("world", WORLDS)
def test_at_five_restarts_bootstrap_t_is_worse(world):
    logs = WORLDS[world](np.random.default_rng(5), 5)
    plain, rival = student(logs), bootstrap_t(logs)
    assert covers(plain) >= covers(rival)
    for share in (0.5, 0.9):
        assert np.quantile(plain[1] - plain[0], share) < np.quantile(rival[1] - rival[0], share)


def test_a_percentile_bootstrap_of_five_promises_far_too_much():
    logs = WORLDS["no stalls"](np.random.default_rng(5), 5)
    rows = np.random.default_rng(0).integers(0, 5, (RESAMPLES, 5))
    assert covers(np.quantile(logs[:, rows].mean(2), [0.025, 0.975], axis=1)) < 0.88


def test_noise_with_one_tail_only_costs_coverage_in_either():
    logs = np.random.default_rng(5).exponential(size=(TRIALS, 5))
    plain, rival = covers(student(logs), 1.0), covers(bootstrap_t(logs), 1.0)
    assert 0.85 < plain < SKEWED
    assert plain < rival < COVERS


def test_the_method_page_states_these_bounds():
    page = (paths.root() / "book" / "method.md").read_text(encoding="utf-8")
    section = page.split("## The interval of a speed-up")[1].split("\n### ")[0]
    said = [float(number) / 100 for number in re.findall(r"(\d+) %", section)]
    assert said == [0.95, COVERS, NEVER_MORE, SKEWED]


def test_the_noise_model_is_no_quieter_than_the_shipped_records():
    model = noise.log_ratios(np.random.default_rng(0), TRIALS, 5, apart_s=180.0)
    assert model.std() >= noise.shipped_log_ratios().std()


@pytest.mark.parametrize(("n", "method"), [(1, "none"), (2, "none"), (3, "student-t"), (5, "student-t")])
def test_below_three_values_there_is_no_interval(n, method):
    got = ratio_ci(np.linspace(2.0, 2.4, n), np.ones(n))
    assert got.method == method
    assert (got.low is None) == (got.high is None) == (method == "none")


def test_known_points():
    assert ratio_ci([2.0, 8.0], [1.0, 1.0]).value == pytest.approx(4.0)
    same = ratio_ci([3.0] * 5, [1.5] * 5)
    assert (same.low, same.value, same.high) == pytest.approx((2.0, 2.0, 2.0))
    t = ratio_ci(np.exp([0.9, 1.0, 1.1]), np.ones(3))  # sd 0.1, t(0.975, 2) = 4.303
    assert np.log([t.low, t.high]) == pytest.approx([1 - 0.2484, 1 + 0.2484], abs=1e-4)


def test_one_restart_far_off_does_not_send_an_end_off():
    got = ratio_ci([1.84, 1.85, 1.93, 2.26, 3.58], np.ones(5))
    want = stats.ttest_1samp(np.log([1.84, 1.85, 1.93, 2.26, 3.58]), 0).confidence_interval()
    assert (got.low, got.high) == pytest.approx(np.exp([want.low, want.high]))
    assert got.high < 3.2


def test_swapping_the_arms_inverts_the_estimate():
    a, b = [4.1, 4.4, 3.9, 4.6, 4.0, 4.2], [2.0, 2.1, 1.9, 2.0, 2.1, 2.2]
    forth, back = ratio_ci(a, b), ratio_ci(b, a)
    assert (back.value, back.low, back.high) == pytest.approx(
        (1 / forth.value, 1 / forth.high, 1 / forth.low)
    )


def test_pairing_removes_what_both_arms_shared():
    machine = np.array([1.0, 0.6, 0.9, 0.5, 0.8])  # a noisy neighbour slows both arms of a restart
    got = ratio_ci(2.0 * machine * [1.01, 0.99, 1.0, 1.01, 0.99], machine)
    assert got.high - got.low < 0.1


def test_geometric_mean_keeps_its_unit():
    assert geometric_mean_ci([100.0, 400.0, 200.0]).value == pytest.approx(200.0)


def test_ratio_of_sums_is_micro_and_covers():
    assert ratio_of_sums_ci([1.0, 30.0], [1.0, 10.0]).value == pytest.approx(31 / 11)
    rng, hits = np.random.default_rng(0), 0
    for _ in range(1000):
        drafts = rng.integers(50, 400, size=5)
        got = ratio_of_sums_ci(rng.poisson(2.5 * drafts), drafts)
        hits += got.low <= 2.5 <= got.high
    assert 920 <= hits <= 980


@pytest.mark.parametrize(
    ("a", "b"), [([1.0, 0.0], [1.0, 1.0]), ([1.0], [1.0, 2.0]), ([], []), ([1.0], [-1.0])]
)
def test_ratios_of_unpaired_or_nonpositive_values_are_refused(a, b):
    with pytest.raises(ValueError, match=r"positive|non-empty"):
        ratio_ci(a, b)


@pytest.mark.parametrize(("a", "b"), [([1.0, 2.0], [1.0, 0.0]), ([1.0], [1.0, 2.0])])
def test_ratio_of_sums_refuses_zero_and_unpaired_values(a, b):
    with pytest.raises(ValueError, match="positive denominators"):
        ratio_of_sums_ci(a, b)
