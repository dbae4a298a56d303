"""A mixture beside the dense target: by the arms that both have, and no loss without an interval."""

import pytest

import factories
from specbook.analysis import moe_tables

ARMS = {None: 1.0, 1: 0.8, 3: 0.9, 5: 3.0}
"""Speed on the mixture by K, over the baseline's; the dense target lacks K = 5."""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Writes the records of one target: its speed by K (None: the baseline), over so many restarts."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))

    def write(name, arms, restarts=3):
        target = factories.target(name=name, model=f"models/{name}")
        return [
            factories.write_run(
                factories.point(factories.eagle3(k) if k else None, target=target, restart=restart),
                100.0 * speed * mood,
                spec_decode=factories.counters((80,) * k) if k else None,
            )
            for restart, mood in zip(range(restarts), (1.0, 1.2, 0.8), strict=False)
            for k, speed in arms.items()
        ]

    return write


def test_targets_are_compared_at_the_best_common_arm(measured):
    (row,) = moe_tables.beside(
        measured("moe", ARMS), measured("dense", {None: 1.0, 1: 1.5, 3: 1.2})
    ).itertuples()
    assert (row.moe_arm, row.dense_arm) == ("EAGLE-3 K=3", "EAGLE-3 K=1")
    assert (row.moe.value, row.dense.value) == pytest.approx((0.9, 1.5))
    assert (row.moe_length, row.dense_length) == pytest.approx((1 + 3 * 0.8, 1.8))
    assert (row.ahead, row.behind) == (False, True)


def test_a_larger_gain_is_stated_only_beyond_both_intervals(measured):
    slow = measured("dense", {None: 1.0, 5: 2.0})
    (row,) = moe_tables.beside(measured("moe", ARMS), slow).itertuples()
    assert (row.ahead, row.behind) == (True, False)
    (once,) = moe_tables.beside(measured("moe", ARMS, restarts=1), slow).itertuples()
    assert (once.ahead, once.behind) == (False, False)


def test_targets_without_a_common_arm_stand_beside_nothing(measured):
    moe = measured("moe", ARMS)
    assert moe_tables.beside(moe, measured("dense", {None: 1.0, 8: 2.0})).empty
    assert moe_tables.beside(moe, []).empty
