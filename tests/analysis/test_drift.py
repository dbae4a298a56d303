"""Recordings of drift: monitors replayed over them, and requests counted across a fallback."""

import numpy as np
import pytest

import drifting
from specbook.analysis import drift
from specbook.records.experiment_results import Readings


def test_a_reset_and_a_gap_in_a_recording_are_no_drift():
    read = Readings(
        at_s=(0, 1, 2, 3, 4), num_drafts=(10, 30, None, 70, 5), num_accepted_tokens=(20, 60, None, 140, 10)
    )
    seen = drift.growth(read)
    assert (seen.accepted / seen.drafts).tolist() == [2, 2, 2]
    assert seen.end_s.tolist() == [1, 3, 4]


def test_lengths_are_by_interval_and_hold_the_bonus_token():
    table = drift.lengths(drifting.episode([3.0] * 20, [1.5] * 20, noise=0.0))
    assert table["length"].tolist() == pytest.approx([3.0] * 20 + [1.5] * 20, abs=0.03)


def test_recordings_are_told_apart_by_what_their_traffic_did():
    found = drift.Recordings.of(
        [(False, drifting.quiet(2)), (False, drifting.abrupt(3)), (True, drifting.abrupt(1))]
    )
    assert [len(part) for part in found] == [2, 3, 1]


def test_windows_are_joined_end_to_end():
    one = drift.growth(drifting.episode([3.0] * 20, []).readings)
    early = one._replace(end_s=one.end_s - 3.5)  # counters are read before the first request, too
    found = drift.joined([one, early])
    assert (np.diff(found.end_s) > 0).all()
    assert found.intervals == 40
    assert drift.interval_s(found) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="no recording without drift"):
        drift.Recordings([], [], []).calm()


def test_what_came_before_a_drift_is_calm_too():
    found = drift.Recordings.of([(False, drifting.quiet(2)), (False, drifting.abrupt(3))])
    calm = found.calm()
    assert calm.intervals == 2 * 120 + 3 * 60
    assert 1 + calm.accepted.sum() / calm.drafts.sum() == pytest.approx(3.5, abs=0.1)


def test_a_window_without_a_draft_is_left_out():
    one = drifting.episode([3.0] * 20, [])
    nothing = Readings(at_s=(0, 1), num_drafts=(5, 5), num_accepted_tokens=(9, 9))
    silent, one = (drift.growth(readings) for readings in (nothing, one.readings))
    found, alone = drift.joined([silent, one, silent, one]), drift.joined([one, one])
    assert found.end_s.tolist() == alone.end_s.tolist()
    assert drift.joined([silent]).intervals == 0


def test_every_monitor_is_compared_at_the_same_sensitivity():
    found = drift.Recordings.of([(False, drifting.quiet(3)), (False, drifting.abrupt(8))])
    table = drift.compare(found, replays=20, days=0.05)
    assert list(table["drift"].unique()) == ["abrupt", "replayed"]
    assert (table.groupby(["drift", "within_s"]).size() == 4).all()
    assert sorted(table["within_s"].unique()) == list(drift.WITHIN_S)
    # Each is judged at the threshold of the others, so the one that set it may be missed.
    assert (table["found"] >= drift.SHARE - 1 / table["episodes"]).all()
    assert (table["delay_s"] <= table["within_s"]).all()
    assert (table["delay_drafts"] > 0).all()
    assert set(table.loc[table["drift"] == "replayed", "episodes"]) == {20}
    longer = table[(table["monitor"] == "CUSUM 0.5") & (table["drift"] == "abrupt")]
    assert longer.sort_values("within_s")["threshold"].is_monotonic_increasing


def test_a_time_in_which_a_server_gave_no_answer_is_left_out():
    found = drift.Recordings.of([(False, drifting.quiet(3)), (False, drifting.abrupt(2))])
    one = found.abrupt[0]
    drafts = tuple(n if at <= 60 or at >= 64 else None for at, n in enumerate(one.readings.num_drafts))
    deaf = one.model_copy(update={"readings": one.readings.model_copy(update={"num_drafts": drafts})})
    table = drift.compare(found._replace(abrupt=[deaf, found.abrupt[1]]), replays=5, days=0.02)
    assert sorted(table.loc[table["drift"] == "abrupt", "within_s"].unique()) == [10.0, 20.0]


def test_requests_that_are_lost_or_broken_are_counted_by_arm():
    table = drift.served(drifting.fallen_back(repeats=2, lost=3)).set_index("arm")
    assert table["sent"].tolist() == [1200, 1200, 1200]
    assert table["lost"].to_dict() == {"fallback": 0, "drafting": 6, "plain": 0}
    assert table.loc["fallback", "switches"] == 4
    assert table.loc["fallback", "in_flight"] == 4 * 8
    assert table.loc["drafting", "e2e_p99_s"] > table.loc["plain", "e2e_p99_s"]
