"""First chunks that came late: the rule, on streams that were told apart by hand."""

import pandas as pd
import pytest

from specbook.stats import windows

STEP_S = 0.0075
USUAL = [STEP_S] * 40
STOOD_STILL = [3e-6] * 40


def rows(*streams) -> pd.DataFrame:
    return pd.DataFrame({"itl_s": [*streams, *([USUAL] * 10)]})


@pytest.mark.parametrize(
    ("gaps", "came_late"),
    [
        (STOOD_STILL, True),
        ([3e-6, 3e-6, *USUAL], True),
        ([3e-6, *USUAL], False),  # two chunks together are a hiccup
        (USUAL, False),
        ([2 * STEP_S, *USUAL], False),
        ([*USUAL, 3e-6, 3e-6], False),  # together, but not the first
        ([3e-6], False),  # too short to say
        ([], False),
    ],
)
def test_the_first_chunks_come_together_or_a_step_apart(gaps, came_late):
    assert list(windows.late_first_chunks(rows(gaps))) == [came_late, *([False] * 10)]


def test_a_window_of_stalled_streams_has_no_others():
    assert windows.late_first_chunks(pd.DataFrame({"itl_s": [STOOD_STILL] * 3})).all()


def test_no_requests_have_no_late_ones():
    assert len(windows.late_first_chunks(pd.DataFrame({"itl_s": []}))) == 0
