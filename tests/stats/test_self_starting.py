"""Scores that learn as they go: normal and independent on noise, whatever came before, and high in a fall."""

import numpy as np
import pytest
from scipy import stats

from specbook.stats.monitors import Growth, Reference, ShiryaevRoberts
from specbook.stats.monitors import self_starting_scores as scores

PROMISED = 100.0


def noise(n, seed, drafts=400, per_draft=1.8, spread=0.1):
    """Intervals of unequal length, acceptance about one mean."""
    rng = np.random.default_rng(seed)
    held = rng.integers(drafts // 2, 2 * drafts, n).astype(float)
    share = per_draft + spread * np.sqrt(drafts / held) * rng.standard_normal(n)
    return Growth(np.arange(1.0, n + 1), held, held * share)


def first_alarm(found):
    over = ShiryaevRoberts().statistics(found) >= np.log(PROMISED)
    return int(over.argmax()) + 1 if over.any() else len(found)


def test_a_score_is_students_t_of_the_interval():
    drafts, accepted = np.array([10.0, 20.0, 10.0, 40.0]), np.array([20.0, 30.0, 15.0, 50.0])
    (found,) = scores(Growth(np.arange(4.0), drafts, accepted), 3)
    mean = 65 / 40
    variance = (10 * (2 - mean) ** 2 + 20 * (1.5 - mean) ** 2 + 10 * (1.5 - mean) ** 2) / 2
    t = (mean - 1.25) / np.sqrt(variance * (1 / 40 + 1 / 40))
    assert found == pytest.approx(stats.norm.ppf(stats.t.cdf(t, 2)))


def test_scores_of_noise_are_standard_normal_and_apart():
    every = np.array([scores(noise(60, seed), 10) for seed in range(400)])
    assert stats.kstest(every.ravel(), "norm").pvalue > 0.01
    assert np.corrcoef(every[:, :-1].ravel(), every[:, 1:].ravel())[0, 1] == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("learned", [10, 30])
@pytest.mark.parametrize("expected", [None, 1.8])
def test_false_alarms_are_as_rare_as_promised(learned, expected):
    runs = [first_alarm(scores(noise(1500, seed), learned, expected)) for seed in range(300)]
    assert PROMISED < np.mean(runs) < 4 * PROMISED


def test_a_reference_of_ten_intervals_would_break_the_promise():
    """Why each score knows how little it was learned from."""
    early = {"reference": 0, "self-starting": 0}
    for seed in range(300):
        seen = noise(60, seed)
        after = Growth(*(column[10:] for column in seen))
        quiet = Growth(*(column[:10] for column in seen))
        early["reference"] += first_alarm(Reference.of(quiet).scores(after)) < 50
        early["self-starting"] += first_alarm(scores(seen, 10)) < 50
    assert early["reference"] > 1.5 * early["self-starting"]


def test_counted_drafts_keep_the_promise_too():
    """Positions accepted one after the other, three at most: bounded and skewed, as acceptance is."""
    runs = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        accepted = np.minimum(rng.geometric(0.4, (1000, 200)) - 1, 3).sum(axis=1).astype(float)
        runs.append(first_alarm(scores(Growth(np.arange(1000.0), np.full(1000, 200.0), accepted), 30)))
    assert np.mean(runs) > PROMISED


def test_a_fall_is_found_within_minutes():
    seen = noise(60, 3)
    seen.accepted[40:] -= 0.2 * seen.drafts[40:]
    found = scores(seen, 30)
    assert first_alarm(found[:10]) == 10
    assert first_alarm(found) <= 16


def test_what_is_expected_shows_a_fall_before_the_start():
    low = noise(60, 5, per_draft=1.6)
    assert first_alarm(scores(low, 30)) == 30
    assert first_alarm(scores(low, 30, expected=1.8)) < 8


def test_acceptance_that_never_varies_tells_nothing():
    flat = Growth(np.arange(12.0), np.full(12, 50.0), np.zeros(12))
    with pytest.raises(ValueError, match="the same in every interval"):
        scores(flat, 10)
