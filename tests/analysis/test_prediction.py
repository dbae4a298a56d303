import numpy as np
import pandas as pd
import pytest

from specbook.analysis import prediction


def costs(ks, verify=1.2, draft=0.1):
    return pd.DataFrame(
        {
            "method": "EAGLE-3",
            "concurrency": 1,
            "num_speculative_tokens": ks,
            "cost": [verify + draft * k for k in ks],
        }
    )


def test_prices_find_the_line_they_were_made_from():
    (row,) = prediction.prices(costs([1, 3, 5, 7])).itertuples()
    assert (row.verify_cost, row.draft_cost) == pytest.approx((1.2, 0.1))
    assert (row.num_speculative_tokens, row.break_even_length) == pytest.approx((7, 1.9))


def test_one_k_cannot_tell_verifying_from_drafting():
    (row,) = prediction.prices(costs([5])).itertuples()
    assert np.isnan(row.verify_cost)
    assert np.isnan(row.draft_cost)
