"""The break-even map and played acceptance beside a real draft's, from records whose truth is known."""

import pytest

import factories
from specbook.analysis import break_even
from specbook.config.chapter import Experiment
from specbook.records.experiment_results import AcceptanceComparison, Pair, TimedArm
from specbook.records.run import ExperimentRecord

STRONG, WEAK = (0.9, 0.8, 0.7), (0.5, 0.2, 0.1)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def arm(rates, price, restart, batch=1, plain_s=0.01):
    """A record whose step takes `price` plain ones and yields what the rates say."""
    spec = factories.eagle3(3, synthetic_acceptance_rates=rates) if rates else None
    step_s = plain_s * price
    length = 1 + sum(rates or ())
    requests = factories.rows(4, step_s, 11)
    per_pos = tuple(round(1000 * rate) for rate in rates or ())
    return factories.write_run(
        factories.point(spec, concurrency=batch, restart=restart), length / step_s, requests=requests,
        spec_decode=factories.counters(per_pos, 1000) if rates else None,
    )  # fmt: skip


def runs(price=2.0, restarts=3):
    return [
        arm(rates, price if rates else 1.0, restart)
        for restart in range(restarts)
        for rates in (None, STRONG, WEAK)
    ]


def test_one_price_for_all_rates_and_gain_is_length_over_it():
    (row,) = break_even.map_of(runs()).itertuples()
    assert (row.load, row.concurrency, row.method, row.num_speculative_tokens) == ("batch 1", 1, "EAGLE-3", 3)
    assert row.step_s == pytest.approx(0.01, rel=0.01)
    assert row.price.value == pytest.approx(2.0, rel=0.01)
    assert row.price.low <= row.price.value <= row.price.high
    assert row.price.counted == "3 restarts"
    (long, gain), (short, loss) = row.played
    assert (long, short) == (pytest.approx(3.4), pytest.approx(1.8))
    assert gain.value == pytest.approx(3.4 / 2.0, rel=0.01)
    assert loss.value == pytest.approx(1.8 / 2.0, rel=0.01)


def test_an_arm_without_a_baseline_has_no_row():
    both = [*runs(), *(arm(rates, 3.0 if rates else 1.0, 0, batch=8) for rates in (None, STRONG))]
    table = break_even.map_of(both)
    assert list(table["concurrency"]) == [1, 8]
    assert table["price"].iloc[1].low is None  # of one restart there is no interval
    assert break_even.map_of([]).empty
    assert break_even.map_of([arm(STRONG, 2.0, 0)]).empty
    assert list(break_even.map_of([*runs(), arm(STRONG, 2.0, 0, batch=8)])["concurrency"]) == [1]


def test_played_is_held_against_real_turn_by_turn():
    tpot = ((0.01, 0.01, 0.02), (0.02, 0.02, 0.04), (0.01, 0.01, 0.02))
    even = tuple((sum(turn) / 3,) * 3 for turn in tpot)
    real = TimedArm(rates=(0.5,), length=(1.5,) * 3, step_s=(0.01, 0.02, 0.01), tpot_s=tpot)
    other = TimedArm(rates=(0.52,), length=(1.52,) * 3, step_s=(0.011, 0.022, 0.011), tpot_s=even)
    result = AcceptanceComparison(rates=(0.5,), pairs=(Pair(concurrency=8, real=real, played=other),))
    asked = Experiment(
        name="playback",
        parameters={"domain": "json", "speculation": factories.eagle3(1).model_dump(mode="json")},
    )
    record = ExperimentRecord(
        run_id="a", chapter="test", kind="simulated", status="ok", started_at="2026-01-01T00:00:00+00:00",
        experiment=asked, hardware=factories.HARDWARE, provenance=factories.PROVENANCE,
        result=result.model_dump(mode="json"),
    )  # fmt: skip
    (row,) = break_even.comparison([(record, result)]).itertuples()
    assert (row.method, row.domain, row.concurrency) == ("EAGLE-3 K=1", "json", 8)
    assert (row.set_length, row.real_length, row.played_length) == (1.5, 1.5, 1.52)
    assert row.step.value == pytest.approx(1.1)
    assert row.step.counted == "3 turns"
    assert row.spread.value == pytest.approx(1 / 1.8)  # p90 of 1, 1, 2 over their median, and of equals
