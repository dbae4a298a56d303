"""Delay and false alarms: by hand on a straight fall, by simulation on noise, and on drawn recordings."""

import numpy as np
import pytest

from specbook.stats.detection import (
    DAY_S,
    Blocks,
    Delay,
    Episode,
    Quiet,
    compare,
    delay,
    false_alarms_per_day,
    resampled,
    spliced,
)
from specbook.stats.monitors import MONITORS, Cusum, Growth, Reference, Window, alarms

REFERENCE = Reference(accepted_per_draft=2.0, variance_per_draft=4.0)
DRAFTS = 16.0
"""An interval, so that a score of 1 is a fall of 0.5."""


def growth(scores) -> Growth:
    """What gives these scores, an interval a second."""
    n = len(scores)
    accepted = DRAFTS * (2.0 - 0.5 * np.asarray(scores, float))
    return Growth(np.arange(1.0, n + 1), np.full(n, DRAFTS), accepted)


def drifting(fall: float, seed: int, quiet: int = 100, after: int = 100) -> Episode:
    noise = np.random.default_rng(seed).standard_normal(quiet + after)
    return Episode(growth(noise + np.repeat([0.0, fall], [quiet, after])), float(quiet))


def calm(scores, interval_s: float = 1.0) -> Quiet:
    """Recorded, all of it."""
    return Quiet(growth(scores), interval_s, interval_s * len(scores))


def test_the_delay_of_a_straight_fall():
    episode = Episode(growth([0] * 10 + [1.5] * 10), 10.0)
    assert delay(Cusum(0.5), REFERENCE, episode, 3.0) == Delay(seconds=3.0, drafts=3 * DRAFTS)


def test_an_interval_across_the_drift_counts_from_it():
    episode = Episode(growth([0] * 10 + [1.5] * 10), 10.5)
    assert delay(Cusum(0.5), REFERENCE, episode, 1.0).seconds == 0.5


def test_what_never_reaches_its_threshold_has_no_delay():
    assert delay(Cusum(0.5), REFERENCE, Episode(growth([0] * 20), 10.0), 3.0) is None


def test_an_alarm_before_the_drift_is_no_detection():
    episode = Episode(growth([9] + [0] * 19), 10.0)
    assert delay(Window(2), REFERENCE, episode, 3.0) is None


def test_the_threshold_is_the_highest_that_still_finds_enough():
    episodes = [Episode(growth([0] * 10 + [0.5 + rise] * 10), 10.0) for rise in (1, 2, 3, 4)]
    # The statistics reach 5, 10, 15, 20 within five seconds.
    quiet = calm([0] * 20)
    found = [
        compare((Cusum(0.5),), REFERENCE, episodes, quiet, share=share, within_s=5)[0].threshold
        for share in (0.5, 0.75, 1)
    ]
    assert found == pytest.approx([15, 10, 5])


def test_an_episode_is_judged_at_the_threshold_of_the_others():
    episodes = [Episode(growth([0] * 10 + [0.5 + rise] * 10), 10.0) for rise in (1, 2, 3, 4)]
    quiet = Quiet(growth([0] * 20), 1.0, 20.0)
    one, = compare((Cusum(0.5),), REFERENCE, episodes, quiet, share=1, within_s=5)  # fmt: skip
    assert one.threshold == pytest.approx(5)
    # At the others' threshold of 10 the slowest rise comes too late; it set the threshold of 5 alone.
    assert (one.found.value, one.found.n) == (0.75, 4)
    alone, = compare((Cusum(0.5),), REFERENCE, episodes[:1], quiet, share=1, within_s=5)  # fmt: skip
    assert alone.found.value == 0


@pytest.mark.parametrize(("share", "within_s", "why"), [(0, 5, "a share above 0"), (1, 0.5, "no interval")])
def test_what_cannot_be_matched_is_refused(share, within_s, why):
    with pytest.raises(ValueError, match=why):
        compare((Cusum(),), REFERENCE, [drifting(2, 0)], calm([0] * 20), share=share, within_s=within_s)


SIX = ([0.0] * 99 + [40.0]) * 6
"""Six alarms: 600 intervals of 144 s are a day."""


def test_false_alarms_by_the_day_with_an_exact_interval():
    found = false_alarms_per_day(Cusum(0.5), REFERENCE, calm(SIX, 144.0), 10.0)
    assert found.value == pytest.approx(6.0)
    assert (found.low, found.high) == pytest.approx((2.2019, 13.0595), abs=1e-3)
    assert found.counted == "1440 minutes"
    none = false_alarms_per_day(Cusum(0.5), REFERENCE, calm(SIX, 144.0), 1e6)
    assert (none.value, none.low) == (0, 0)
    assert none.high == pytest.approx(3.6889, abs=1e-3)  # - log(0.025): nothing seen is not never


def test_a_recording_that_is_replayed_counts_once_however_often():
    """Six alarms in a day that is an hour, replayed, are a quarter of an alarm in that hour."""
    hour = calm(SIX, 144.0)._replace(recorded_s=3600.0)
    found = false_alarms_per_day(Cusum(0.5), REFERENCE, hour, 10.0)
    assert found.value == pytest.approx(6.0)
    assert found.low < 0.01
    assert found.high > 24 * 3.6889
    twice = Quiet(growth(SIX * 2), 144.0, 3600.0)
    again = false_alarms_per_day(Cusum(0.5), REFERENCE, twice, 10.0)
    assert (again.low, again.high) == pytest.approx((found.low, found.high))
    none = false_alarms_per_day(Cusum(0.5), REFERENCE, hour, 1e6)
    assert none.high == pytest.approx(24 * 3.6889, abs=0.01)
    assert none.counted == "60 minutes"


def test_the_interval_of_replayed_alarms_covers_the_true_rate():
    """A minute in a hundred is bad; twenty hours are recorded, and ten days replayed from them."""
    rng, covered, blind = np.random.default_rng(3), 0, 0
    for _ in range(60):
        bad = 40.0 * (rng.random(1200) < 0.01)
        drawn = resampled(growth(bad), 14_400, Blocks(10, 60.0), rng)
        found, narrow = (
            false_alarms_per_day(Cusum(0.5), REFERENCE, Quiet(drawn, 60.0, seconds), 10.0)
            for seconds in (1200 * 60.0, 14_400 * 60.0)
        )
        covered += found.low <= 14.4 <= found.high
        blind += narrow.low <= 14.4 <= narrow.high
    assert covered >= 54
    assert blind < 45  # the replayed days' own interval is too narrow


def test_a_short_mean_is_not_best_for_a_small_lasting_fall():
    """What theory says of means and sums (Page 1954): at the same sensitivity the sum cries wolf less."""
    episodes = [drifting(1.0, seed) for seed in range(60)]
    quiet = calm(np.random.default_rng(99).standard_normal(DAY_S))
    found = compare((Window(3), Cusum(0.5)), REFERENCE, episodes, quiet, share=0.95, within_s=40)
    assert [one.title for one in found] == ["CUSUM 0.5", "mean of 3"]
    assert found[0].false_alarms_per_day.value * 3 < found[1].false_alarms_per_day.value
    assert all(one.found.value >= 0.95 for one in found)
    assert all(len(one.delays) == round(60 * one.found.value) for one in found)


def test_without_drift_alarms_are_those_of_noise():
    episodes = [drifting(0.0, seed) for seed in range(40)]
    quiet = calm(np.random.default_rng(7).standard_normal(20_000))
    for one in compare(MONITORS, REFERENCE, episodes, quiet, share=1.0, within_s=30):
        assert one.false_alarms_per_day.value > 500  # to find nothing, it has to cry all day


def test_a_monitor_that_must_alarm_at_0_is_left_out():
    late = [Episode(growth([0] * 10 + [-1.0] * 5 + [3.0] * 20), 10.0)]
    quiet = calm(np.random.default_rng(7).standard_normal(2000))
    assert compare(MONITORS, REFERENCE, late, quiet, share=1.0, within_s=4) == []
    assert len(compare(MONITORS, REFERENCE, late, quiet, share=1.0, within_s=20)) == len(MONITORS)


# drawn recordings


def test_blocks_keep_their_order_and_come_from_the_recording():
    quiet = Growth(np.arange(1.0, 101), np.arange(100.0) + 1, np.arange(100.0))
    found = resampled(quiet, 45, Blocks(10, 0.5), np.random.default_rng(0))
    assert found.intervals == 45
    assert found.end_s[-1] == 22.5
    assert (found.drafts - found.accepted == 1).all()
    runs = np.diff(found.accepted)
    assert np.delete(runs, np.arange(9, 44, 10)).tolist() == [1.0] * 40


def test_a_recording_shorter_than_a_block_is_refused():
    with pytest.raises(ValueError, match="does not fit into 5"):
        resampled(growth([0] * 5), 20, Blocks(6, 1.0), np.random.default_rng(0))


def test_a_spliced_drift_falls_where_it_says():
    rng = np.random.default_rng(0)
    found = spliced(growth([0.0] * 50), growth([3.0] * 50), 30, Blocks(5, 2.0), rng)
    scores = REFERENCE.scores(found.growth)
    assert found.drift_s == 60.0
    assert scores[found.growth.end_s <= found.drift_s].tolist() == [0.0] * 30
    assert scores[found.growth.end_s > found.drift_s] == pytest.approx([3.0] * 30)
    assert alarms(Cusum(0.5), scores, 5.0)[0] == 31
