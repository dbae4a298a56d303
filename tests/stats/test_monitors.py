"""Monitors at points that can be worked out by hand, and on noise whose law is known."""

import numpy as np
import pytest

from specbook.stats.monitors import (
    MONITORS,
    Cusum,
    Ewma,
    Growth,
    Reference,
    ShiryaevRoberts,
    Window,
    alarms,
)


def noise(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def test_cusum_is_pages_recursion():
    scores, held, want = noise(500), 0.0, []
    for score in scores:
        held = max(0.0, held + score - 0.5)
        want.append(held)
    assert Cusum(0.5).statistics(scores) == pytest.approx(want)


def test_cusum_crosses_after_the_fall_less_the_allowance():
    # 1.5 above the reference, 0.5 of them allowed: one a step.
    assert Cusum(0.5).statistics(np.full(6, 1.5)) == pytest.approx([1, 2, 3, 4, 5, 6])
    assert alarms(Cusum(0.5), np.full(6, 1.5), threshold=3.0) == [2, 5]


@pytest.mark.parametrize("threshold", [2.0, 4.0])
def test_cusums_false_alarms_on_noise_are_siegmunds(threshold):
    scores = noise(200_000, seed=5)
    found = len(scores) / len(alarms(Cusum(0.5), scores, threshold))
    reach = threshold + 1.166  # Siegmund 1985 (doi:10.1007/978-1-4757-1862-1), ch. 2, for an allowance of 0.5
    assert found == pytest.approx(2 * (np.exp(reach) - reach - 1), rel=0.1)


def test_ewma_is_its_recursion_of_unit_variance():
    scores, held, want = noise(200_000), 0.0, []
    for score in scores[:200]:
        held = 0.9 * held + 0.1 * score
        want.append(held / np.sqrt(0.1 / 1.9))
    found = Ewma(0.1).statistics(scores)
    assert found[:200] == pytest.approx(want)
    assert found[1000:].std() == pytest.approx(1.0, abs=0.03)


def test_shiryaev_roberts_sums_the_ratios_of_every_beginning():
    scores = noise(40)
    ratios = np.exp(0.8 * scores - 0.32)
    want = [np.log(sum(ratios[k : n + 1].prod() for k in range(n + 1))) for n in range(40)]
    assert ShiryaevRoberts(0.8).statistics(scores) == pytest.approx(want)


def test_shiryaev_roberts_keeps_its_false_alarm_rate():
    promised, scores = 200.0, noise(200_000, seed=3)
    found = alarms(ShiryaevRoberts(1.0), scores, np.log(promised))
    assert len(scores) / len(found) > promised


def test_the_window_forgets_what_left_it():
    assert Window(2).statistics(np.array([3.0, 0.0, 0.0, 4.0])) == pytest.approx(
        [3.0, 3.0 / np.sqrt(2), 0.0, 4.0 / np.sqrt(2)]
    )


@pytest.mark.parametrize("monitor", MONITORS, ids=lambda one: one.title)
def test_every_monitor_rises_when_acceptance_falls(monitor):
    scores = np.concatenate([noise(200), noise(200) + 3.0])
    over = monitor.statistics(scores[:200]).max() + 1
    found = alarms(monitor, scores, over)
    assert 200 <= found[0] < 215
    assert alarms(monitor, scores[found[0] + 1 :], over)[0] == found[1] - found[0] - 1


def test_alarms_are_found_where_they_are_and_only_there():
    scores, places = np.zeros(5000), [0, 31, 32, 33, 1000, 4999]
    scores[places] = 9.0
    assert alarms(Cusum(0.5), scores, 8.0) == places
    assert alarms(Cusum(0.5), scores, 40.0) == []
    assert alarms(Cusum(0.5), scores[:0], 8.0) == []


# counters


def test_growth_between_readings():
    found = Growth.of([0, 1, 3], [10, 30, 60], [20, 60, 90])
    assert [column.tolist() for column in found] == [[1, 3], [20, 30], [40, 30]]


def test_a_counter_that_was_reset_grew_by_what_it_shows():
    found = Growth.of([0, 1, 2], [100, 120, 5], [200, 240, 9])
    assert (found.drafts.tolist(), found.accepted.tolist()) == ([20, 5], [40, 9])


def test_a_reset_shows_in_one_counter_and_counts_for_both():
    # After the restart 9 were accepted where 8 stood before: read alone, that counter grew by 1.
    found = Growth.of([0, 1], [100, 5], [8, 9])
    assert (found.drafts.tolist(), found.accepted.tolist()) == ([5], [9])


def test_a_reading_that_vanished_leaves_a_longer_interval():
    found = Growth.of([0, 1, 2], [10, None, 60], [20, None, 90])
    assert [column.tolist() for column in found] == [[2], [50], [70]]


def test_intervals_without_drafts_are_left_out_or_refused():
    assert Growth.of([0, 1, 2], [10, 10, 20], [5, 5, 9]).end_s.tolist() == [2]
    assert Growth.of([], [], []).intervals == 0


def test_readings_lie_one_after_the_other():
    with pytest.raises(ValueError, match="one after the other"):
        Growth.of([0, 2, 1], [1, 2, 3], [1, 2, 3])


def test_a_stretch_of_a_recording():
    found = Growth.of([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]).between(1, 2)
    assert found.end_s.tolist() == [2]


# the quiet stretch


def binomial(n: int, drafts: int, share: float, seed: int = 0) -> Growth:
    accepted = np.random.default_rng(seed).binomial(drafts, share, n).astype(float)
    return Growth(np.arange(1.0, n + 1), np.full(n, float(drafts)), accepted)


def test_independent_drafts_give_their_own_variance():
    found = Reference.of(binomial(5000, 40, 0.3))
    assert found.accepted_per_draft == pytest.approx(0.3, abs=0.005)
    assert found.variance_per_draft == pytest.approx(0.3 * 0.7, rel=0.06)


def test_scores_count_standard_deviations_below():
    reference = Reference(2.0, 4.0)
    seen = Growth(np.array([1.0, 2.0]), np.array([16.0, 4.0]), np.array([24.0, 10.0]))
    assert reference.scores(seen) == pytest.approx([0.5 / 0.5, -0.5 / 1.0])


def test_a_reference_needs_a_stretch_that_varies():
    with pytest.raises(ValueError, match="need 10 intervals"):
        Reference.of(binomial(9, 40, 0.3))
    with pytest.raises(ValueError, match="is the same in every interval"):
        Reference.of(binomial(20, 40, 0.0))
