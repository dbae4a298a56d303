"""The policy on made lengths: it leaves, rests, comes back, and never flutters."""

import pytest
from pydantic import ValidationError

from specbook.stats.fallback import Fallback, Policy, Switch

POLICY = Policy(leave_below=2.0, return_above=3.0, window_s=5, min_drafts=50, cool_down_s=10, trial_every=10)


def told(lengths: list[float], policy: Policy = POLICY, drafts: float = 20) -> Fallback:
    """A length a second."""
    made = Fallback(policy)
    for second, length in enumerate(lengths, start=1):
        made.see(float(second), drafts, drafts * (length - 1))
    return made


def test_it_leaves_once_a_full_windows_mean_is_below():
    made = told([1.5] * 5)
    assert made.switches == [Switch(3.0, False, pytest.approx(1.5))]  # 50 drafts are there after 3 s


def test_the_window_forgets():
    # Four seconds at 5 and one at 1 are a mean of 4.2; from the fourth at 1 on it is below 2.
    made = told([5.0] * 20 + [1.0] * 4)
    assert [switch.at_s for switch in made.switches] == [24.0]
    assert made.switches[0].length == pytest.approx(1.8)


def test_between_the_thresholds_nothing_changes():
    assert told([2.5] * 60).switches == []
    assert [s.drafting for s in told([1.0] * 20 + [2.5] * 60).switches] == [False]


def test_it_comes_back_rested_above_the_upper_threshold():
    made = told([1.0] * 3 + [9.0] * 30)
    assert [(s.at_s, s.drafting) for s in made.switches] == [(3.0, False), (13.0, True)]


def test_noise_around_one_threshold_does_not_make_it_flutter():
    made = told([1.9, 2.1] * 200)
    assert len(made.switches) == 1


def test_few_drafts_say_nothing():
    assert told([1.0] * 5, drafts=9).switches == []


def test_a_window_holds_enough_and_forgets_the_older():
    made = told([1.0] * 23)
    for second in range(24, 60):  # a trial of 4 drafts a second: 13 s of them are enough, 5 s never are
        made.see(float(second), 4, 4 * 8.0)
    assert [switch.drafting for switch in made.switches] == [False, True]
    back = made.switches[1]
    assert 24 < back.at_s <= 37
    assert back.length <= 9.0


def test_metrics_that_vanish_change_nothing():
    made = told([1.0] * 3)
    for second in range(4, 100):
        assert made.see(float(second), 0.0, 0.0) is False


def test_lost_metrics_void_what_was_seen_at_rest():
    made = told([1.0] * 3 + [9.0] * 8)  # good again, and resting until 13 s
    for second in range(12, 100):
        assert made.see(float(second), 0.0, 0.0) is False


def test_a_window_that_never_ends_is_refused():
    with pytest.raises(ValidationError, match=r"window_s\n.*finite number"):
        Policy(**POLICY.model_dump() | {"window_s": float("inf")})


def test_one_threshold_is_refused():
    with pytest.raises(ValidationError, match="return_above must lie above leave_below"):
        Policy(**POLICY.model_dump() | {"return_above": 2.0})
