"""Power: the formula against simulation of the very interval, and the restarts that it asks for."""

import numpy as np
import pytest

from specbook.stats.ratios import (
    crossed_ci,
    independent_ratio_ci,
    more_restarts,
    power,
    ratio_ci,
    restarts_for,
)

TRIALS = 2000


@pytest.mark.parametrize("paired", [True, False])
def test_power_is_what_simulation_gives(paired):
    rng, n, sd, slowdown = np.random.default_rng(0), 5, 0.05, 0.08
    base, other = rng.normal(0, sd, (2, TRIALS, n)), np.log(1 - slowdown)
    if paired:
        found = [ratio_ci(np.exp(row + other), np.ones(n)) for row in base[0]]
    else:
        found = [independent_ratio_ci(np.exp(b + other), np.exp(a)) for a, b in zip(*base, strict=True)]
    seen = np.mean([one.high < 1 for one in found])
    assert power(slowdown, sd, n, paired) == pytest.approx(seen, abs=0.03)


def test_two_samples_cover_as_they_claim_and_mirror():
    rng = np.random.default_rng(1)
    one, other = np.exp(rng.normal(0, 0.1, (TRIALS, 3))), np.exp(rng.normal(0, 0.02, (TRIALS, 5)))
    found = [independent_ratio_ci(a, b) for a, b in zip(one, other, strict=True)]
    assert 0.93 < np.mean([x.low <= 1 <= x.high for x in found]) < 0.98
    back = independent_ratio_ci(other[0], one[0])
    assert back.low == pytest.approx(1 / found[0].high)


def test_two_values_have_no_interval():
    assert independent_ratio_ci([1.0, 2.0], [1.0, 2.0, 3.0]).low is None


def test_restarts_are_the_fewest_with_that_power():
    n = restarts_for(0.05, 0.04, True)
    assert power(0.05, 0.04, n - 1, True) < 0.8 <= power(0.05, 0.04, n, True)
    assert restarts_for(0.05, 0.04, False) > n
    assert restarts_for(0.05, 0.0, True) == 3
    assert restarts_for(0.001, 1.0, True) is None


def like(restarts, mean, spread):
    """Ratios whose logarithms have exactly this mean and standard deviation."""
    logs = np.linspace(-1.0, 1.0, restarts)
    return np.exp(np.log(mean) + spread * logs / logs.std(ddof=1))


@pytest.mark.parametrize(("mean", "spread"), [(1.04, 0.03), (1.02, 0.01), (1.1, 0.2)])
def test_more_restarts_are_those_of_the_power(mean, spread):
    measured = like(3, mean, spread)
    alone = more_restarts(measured, crossed_ci(measured, [np.zeros(12)]))
    assert 3 + alone == restarts_for(1 - 1 / mean, spread, True)
    prompts = 0.15 * np.log(mean) * np.linspace(-1, 1, 12)
    assert more_restarts(measured, crossed_ci(measured, [prompts])) > alone


def test_restarts_do_not_settle_what_prompts_leave_open():
    wide = [np.linspace(-0.02, 0.02, 12)]
    assert more_restarts(like(3, 1.04, 0.01), crossed_ci(like(3, 1.04, 0.01), wide)) is None
    assert more_restarts(like(3, 0.97, 0.05), crossed_ci(like(3, 0.97, 0.05), [np.zeros(12)])) is None


@pytest.mark.parametrize(("slowdown", "sd"), [(0.0, 0.1), (1.0, 0.1), (0.1, -1.0)])
def test_impossible_questions_are_refused(slowdown, sd):
    with pytest.raises(ValueError, match="need 0 < slowdown < 1"):
        power(slowdown, sd, 3, True)
