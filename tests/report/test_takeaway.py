"""A finding is on the page only while the records show it; and how chapters of shipped records read."""

import numpy as np
import pandas as pd
import pytest

from specbook.report.takeaway import takeaway

TABLE = pd.DataFrame({"load": ["batch 1", "batch 32"], "low": [1.2, 0.8]})


def test_a_finding_is_shown_while_the_records_show_it():
    conditions = (lambda: TABLE["low"][:1] > 1, lambda: TABLE[["low"]] > 0, lambda: True)
    shown = takeaway("Small batches gain.", *conditions)
    assert shown.data == "> **Takeaway.** Small batches gain."


@pytest.mark.parametrize(
    "condition",
    [
        lambda: TABLE["low"] > 1,  # not of every row
        lambda: TABLE[["low"]] > 1,
        lambda: TABLE[TABLE["load"] == "batch 8"]["low"] > 1,  # of no row
        lambda: TABLE["high"] > 1,
        lambda: TABLE.iloc[5],
        lambda: False,
        lambda: np.nan,
        lambda: None,
        lambda: "yes",
        lambda: TABLE["low"].sum(),  # a number is no answer
        lambda: 1 / 0,
        lambda: float("K"),
    ],
)
def test_a_finding_that_the_records_do_not_show_is_left_out(condition):
    assert takeaway("Small batches gain.", lambda: True, condition) is None


def test_a_finding_without_a_condition_is_refused():
    with pytest.raises(ValueError, match="needs a condition"):
        takeaway("Small batches gain.")
