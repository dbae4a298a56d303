"""A day of traffic: what was in flight, percentiles of each arm, and one arm over another."""

import numpy as np
import pytest

from specbook.analysis import scaling
from specbook.records.experiment_results import DayArm, DayArms, OpenLoopRequests
from specbook.records.run import SpecDecodeCounters

SENT_S = np.arange(600) / 10


def arm(name="baseline", restart=0, e2e_s=1.0, sent=600, outcome="whole", drafted=None):
    requests = OpenLoopRequests(
        sent_s=tuple(SENT_S[:sent]), ttft_s=(e2e_s / 5,) * sent, e2e_s=(e2e_s,) * sent,
        output_tokens=(41,) * sent, outcome=(*("whole",) * (sent - 1), outcome), errors={},
    )  # fmt: skip
    return DayArm(arm=name, restart=restart, requests=requests, spec_decode=drafted)


def test_requests_in_flight_are_counted():
    one = arm(e2e_s=0.25, sent=3)  # sent at 0, 0.1 and 0.2
    assert list(scaling.in_flight(one, [0.0, 0.15, 0.22, 0.3, 0.5])) == [1, 2, 3, 2, 0]


def test_a_day_has_littles_law():
    (row,) = scaling.days(DayArms(arms=(arm(e2e_s=2.0),))).itertuples()
    assert row.in_flight == pytest.approx(600 / (SENT_S[-1] + 2.0) * 2.0)
    assert row.tokens_per_s == pytest.approx(600 * 41 / (SENT_S[-1] + 2.0))
    assert (row.ttft_p99_s, row.tpot_p50_s) == pytest.approx((0.4, 1.6 / 40))
    assert (row.sent, row.lost) == (600, 0)
    assert np.isnan(row.length)


def test_too_few_requests_have_no_p99():
    counted = SpecDecodeCounters(
        num_drafts=10, num_draft_tokens=20, num_accepted_tokens=15, num_accepted_tokens_per_pos=(10, 5)
    )
    table = scaling.days(DayArms(arms=(arm(sent=100, outcome="refused", drafted=counted),)))
    assert np.isnan(table["ttft_p99_s"]).all()
    assert (table["lost"].item(), table["length"].item()) == (1, 2.5)


def test_arms_are_compared_within_a_restart():
    slow = [arm(restart=i, e2e_s=seconds) for i, seconds in enumerate((1.0, 2.0, 4.0))]
    fast = [arm("K=1", restart=i, e2e_s=seconds) for i, seconds in enumerate((0.5, 1.0, 1.6))]
    (row,) = scaling.beside(scaling.days(DayArms(arms=(*slow, *fast)))).itertuples()
    assert row.arm == "K=1"
    assert row.tpot_p99_s.value == pytest.approx((0.5 * 0.5 * 0.4) ** (1 / 3))
    assert row.tpot_p99_s.counted == "3 restarts"
    assert row.tpot_p99_s.low < 0.45 < row.tpot_p99_s.high


def test_what_was_not_measured_together_has_no_ratio():
    apart = DayArms(arms=(arm(restart=0), arm("K=1", restart=1)))
    assert scaling.beside(scaling.days(apart)).empty
    few = DayArms(arms=(arm(sent=100), arm("K=1", sent=100)))
    (row,) = scaling.beside(scaling.days(few)).itertuples()
    assert row.ttft_p99_s is None
    assert row.ttft_p50_s.value == pytest.approx(1)
    assert list(scaling.beside(scaling.days(DayArms(arms=())))) == list(scaling.BESIDE)
