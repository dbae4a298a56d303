"""Latency percentiles of made-up records, and what speculation changes: n counts prompts, not requests."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from factories import eagle3, point, rows, write_run
from specbook.analysis import latency, speedup
from specbook.records.run import Round


@pytest.fixture(autouse=True)
def _results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def restarts(speed, n, speculation=None, domain="json", count=3):
    """Restarts of one arm, each a tenth faster than the one before; the same `n` prompts in each."""
    places = [point(speculation, domain=domain, num_requests=n, restart=i) for i in range(count)]
    return [write_run(place, speed * 1.1**i) for i, place in enumerate(places)]


def test_a_percentile_is_its_restarts_mean_and_counts_prompts():
    found = latency.table(restarts(100.0, 20)).set_index(["metric", "q"])
    median = found.loc[("tpot_s", 0.5)]
    assert median["value"] == pytest.approx(0.01 * (1 + 1 / 1.1 + 1 / 1.21) / 3, rel=0.01)
    assert (median["n"], median["enough"], median["estimate"].unit_of_n) == (20, True, "prompts")
    assert median["low"] < median["value"] < median["high"]
    p99 = found.loc[("tpot_s", 0.99)]
    assert (p99["n"], p99["enough"], pd.isna(p99["low"])) == (20, False, True)
    assert found.loc[("itl_s", 0.5), "n"] == 20  # ten gaps of each prompt
    assert list(found.index.levels[0].sort_values()) == sorted(latency.LATENCIES)


def test_a_wide_interval_says_how_many_restarts_it_needs():
    places = [point(num_requests=20, restart=i) for i in range(3)]
    runs = [write_run(place, speed) for place, speed in zip(places, (100.0, 100.0, 20.0), strict=True)]
    found = latency.table(runs, by=("concurrency", "execution"))
    (wide,) = found.loc[(found["metric"] == "tpot_s") & (found["q"] == 0.5)].itertuples()
    assert wide.high > latency.WIDE * wide.low > 0
    assert 3 < wide.needed < 60  # as many as make Student's half-width the root of WIDE
    spread = np.std([1, 1, 5], ddof=1) / np.mean([1, 1, 5])
    half = [special.stdtrit(n - 1, 0.975) * spread / n**0.5 for n in (wide.needed - 2, wide.needed + 2)]
    assert half[0] > np.log(latency.WIDE) / 2 > half[1]


def test_a_narrow_interval_needs_no_more_restarts():
    assert latency.table(restarts(100.0, 20))["needed"].isna().all()


def test_equal_names_in_two_domains_are_two_prompts():
    runs = [*restarts(100.0, 8), *restarts(100.0, 8, domain="chat")]
    assert set(latency.table(runs)["n"]) == {8}
    assert set(latency.table(runs, by=("arm", "load"))["n"]) == {16}


def test_answers_of_one_token_have_no_tpot():
    short = rows(12)
    short.loc[:3, "output_tokens"] = 1
    found = latency.table([write_run(point(num_requests=12), 100.0, requests=short)]).set_index(
        ["metric", "q"]
    )
    assert found.loc[("tpot_s", 0.5), "n"] == 8
    assert found.loc[("ttft_s", 0.5), "n"] == 12


def test_the_pooled_tail_has_all_domains_prompts():
    runs = []
    for domain in ("json", "chat"):
        runs += [*restarts(100.0, 250, domain=domain), *restarts(50.0, 250, eagle3(), domain)]
    found = latency.tails(runs)
    p99 = found[found["q"] == 0.99].set_index(["metric", "domain"]).loc["tpot_s"]
    assert p99["n"].to_dict() == {"json": 250, "chat": 250, latency.POOLED: 500}
    assert p99["enough"].to_dict() == {"json": False, "chat": False, latency.POOLED: True}
    assert p99["low"].notna().to_dict() == p99["enough"].to_dict()


def test_restarts_of_the_same_prompts_do_not_make_a_p99():
    runs = [*restarts(100.0, 100, count=5), *restarts(50.0, 100, eagle3(), count=5)]
    found = latency.changes(runs)
    assert set(found["n"]) == {100}
    assert dict(zip(found["q"], found["enough"], strict=True)) == {0.5: True, 0.99: False}


def test_an_arm_is_compared_only_within_its_round():
    speeds = {"calm": [(None, 100.0), (eagle3(3), 80.0)], "noisy": [(None, 50.0), (eagle3(5), 25.0)]}
    runs = [
        write_run(point(draft, num_requests=20), speed, run_id=f"{name}-{speed:g}", round=Round(id=name))
        for name, arms in speeds.items()
        for draft, speed in arms
    ]
    found = latency.changes(runs).set_index(["metric", "q", "arm"]).sort_index()["value"].loc[("tpot_s", 0.5)]
    assert found["EAGLE-3 K=3 (compiled)"] == pytest.approx(1 / 80 - 1 / 100, rel=0.02)
    assert found["EAGLE-3 K=5 (compiled)"] == pytest.approx(1 / 25 - 1 / 50, rel=0.02)


def test_a_change_is_taken_within_each_restart():
    runs = [*restarts(100.0, 20, count=4), *restarts(50.0, 20, eagle3())]
    found = latency.changes(runs).set_index(["metric", "q"]).loc[("tpot_s", 0.5)]
    speeds = [(50 * 1.1**i, 100 * 1.1**i) for i in range(3)]  # the fourth restart has no arm to pair with
    assert found["value"] == pytest.approx(sum(1 / arm - 1 / base for arm, base in speeds) / 3, rel=0.01)
    assert found["value"] == pytest.approx(found["arm_s"] - found["baseline_s"])
    assert found["low"] < found["value"] < found["high"]


def test_chosen_arms_change_as_they_do_among_all():
    drafts = {3: 150.0, 5: 200.0}
    runs = restarts(100.0, 20)
    for k, speed in drafts.items():
        runs += restarts(speed, 20, eagle3(k))
    best = speedup.best_k(runs)
    found, every = latency.changes(runs, best, pooled=True), latency.changes(runs, pooled=True)
    assert set(found["arm"]) == set(best["arm"]) == {"EAGLE-3 K=5 (compiled)"}
    assert set(found["method"]) == {"EAGLE-3"}
    same = every[every["arm"].isin(best["arm"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, same)
    assert latency.changes(runs, best[:0]).empty
