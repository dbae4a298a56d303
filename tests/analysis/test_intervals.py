"""Which of two estimates is larger is said only where their intervals show it."""

import pytest

from specbook.analysis import intervals
from specbook.stats.estimate import Estimate


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
    assert intervals.side(estimate(low, high)) == side


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [(2.1, 3.0, "above"), (1.9, 3.0, "within"), (0.1, 0.9, "below"), (None, None, None)],
)
def test_two_intervals_overlap_or_one_lies_beyond(low, high, side):
    assert intervals.compare(estimate(low, high), estimate(1.0, 2.0)) == side
    assert intervals.compare(estimate(1.0, 2.0), estimate(None, None)) is None
