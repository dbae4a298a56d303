"""Tidy tables over made-up records: what is pooled, what is paired, what is refused."""

import numpy as np
import pytest

from factories import counters, eagle3, failed_run, point, rows, target, write_run
from specbook.analysis import speedup, summaries
from specbook.errors import RecordError

EAGER = {"target": target("eager")}
RESTARTS = 5


@pytest.fixture(autouse=True)
def _results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def arm(speed, speculation=None, domain="json", concurrency=1, restarts=RESTARTS, **more):
    """Restarts of one arm, a little noisy, around `speed` tokens/s."""
    noise = 1 + 0.01 * np.cos(np.arange(restarts))
    drafted = counters((8, 5), 10) if speculation else None
    return [
        write_run(
            point(speculation, domain=domain, concurrency=concurrency, restart=i, **more), speed * noise[i],
            spec_decode=drafted,
        )
        for i in range(restarts)
    ]  # fmt: skip


def test_pooled_requests_carry_their_arm_and_tpot():
    broken = rows(3)
    broken.loc[0, "error"] = "timeout"
    broken.loc[1, "output_tokens"] = 1
    got = summaries.pooled_requests(
        [write_run(point(), 100.0, requests=broken), failed_run(point(restart=1))]
    )
    assert list(got["prompt_id"]) == ["p1", "p2"]
    assert got["tpot_s"].isna().tolist() == [True, False]
    assert got["tpot_s"].iloc[1] == pytest.approx(0.01, rel=0.02)
    assert set(got["arm"]) == {"baseline (compiled)"}


def test_no_good_record_is_said_so():
    with pytest.raises(RecordError, match="no good record"):
        summaries.pooled_requests([failed_run(point())])


def test_a_point_measured_twice_counts_once():
    runs = [write_run(point(), speed, started_at=f"2026-01-0{day}") for day, speed in ((1, 50.0), (2, 80.0))]
    assert summaries.throughput(runs)["output_tokens_per_s"].tolist() == [80.0]


def test_single_stream_decode_speed_leaves_the_first_token_out():
    got = summaries.throughput([write_run(point(), 100.0)])
    assert got["decode_tokens_per_s"].iloc[0] == pytest.approx(100.0, rel=0.01)


def test_speedup_is_against_the_faster_baseline_of_each_load():
    runs = [
        *arm(100.0), *arm(60.0, **EAGER), *arm(250.0, eagle3()),
        *arm(300.0, concurrency=8), *arm(400.0, concurrency=8, **EAGER), *arm(200.0, eagle3(), concurrency=8),
    ]  # fmt: skip
    table = speedup.speedups(runs).set_index(["load", "arm"])
    one, eight = (
        table.loc[("batch 1", "EAGLE-3 K=5 (compiled)")],
        table.loc[("batch 8", "EAGLE-3 K=5 (compiled)")],
    )
    assert (one["baseline"], eight["baseline"]) == ("baseline (compiled)", "baseline (eager)")
    assert (one["speedup"], eight["speedup"]) == pytest.approx((2.5, 0.5))
    assert one["baseline_tokens_per_s"] == pytest.approx(100.0, rel=0.01)
    assert (one["n"], one["estimate"].method) == (RESTARTS, "prompts-and-restarts")
    assert one["low"] <= one["speedup"] <= one["high"]
    assert one["estimate"].format("x").endswith("n=5 restarts × 4 prompts")
    assert table.loc[("batch 1", "baseline (eager)"), "speedup"] == pytest.approx(0.6)


def test_only_restarts_in_both_arms_are_paired():
    table = speedup.speedups([*arm(100.0, restarts=3), *arm(200.0, eagle3(), restarts=5)])
    assert table["n"].tolist() == [3]


def test_different_setups_are_never_compared():
    assert speedup.speedups([*arm(100.0), *arm(200.0, eagle3(), num_requests=5)]).empty
    assert speedup.speedups([*arm(100.0), *arm(200.0, eagle3(), domain="chat")]).empty
    assert speedup.speedups([]).empty


def test_two_drafts_of_one_name_are_refused():
    with pytest.raises(RecordError, match="EAGLE-3 K=5"):
        speedup.speedups([*arm(100.0), *arm(200.0, eagle3()), *arm(220.0, eagle3(model="models/other"))])


def test_each_method_competes_at_its_own_best_k():
    peagle = {"parallel_drafting": True, "model": "models/peagle"}
    runs = [
        *arm(100.0), *arm(150.0, eagle3(3)), *arm(180.0, eagle3(5)), *arm(170.0, eagle3(8)),
        *arm(200.0, eagle3(5, **peagle)), *arm(260.0, eagle3(8, **peagle)),
    ]  # fmt: skip
    table = speedup.best_k(runs).set_index("method")["num_speculative_tokens"]
    assert table.to_dict() == {"EAGLE-3": 5, "P-EAGLE": 8}


def test_best_k_over_domains_is_macro_and_per_domain_on_demand():
    runs = [
        *arm(100.0), *arm(100.0, domain="chat"),
        *arm(300.0, eagle3(8)), *arm(50.0, eagle3(8), domain="chat"),
        *arm(200.0, eagle3(3)), *arm(110.0, eagle3(3), domain="chat"),
    ]  # fmt: skip
    assert speedup.best_k(runs)["num_speculative_tokens"].tolist() == [3, 3]
    per_domain = speedup.best_k(runs, by=("load", "domain")).set_index("domain")["num_speculative_tokens"]
    assert per_domain.to_dict() == {"json": 8, "chat": 3}


def test_a_mean_over_domains_stands_beside_its_worst_domain():
    runs = [
        *arm(100.0), *arm(100.0, domain="chat"), *arm(400.0, eagle3()), *arm(100.0, eagle3(), domain="chat")
    ]  # fmt: skip
    got = speedup.across_domains(speedup.speedups(runs)).iloc[0]
    assert (got["speedup"], got["worst"], got["best"], got["cells"]) == pytest.approx((2.0, 1.0, 4.0, 2))


def test_averaging_refuses_two_plans_at_once():
    runs = [
        *arm(100.0),
        *arm(200.0, eagle3()),
        *arm(100.0, num_requests=5),
        *arm(200.0, eagle3(), num_requests=5),
    ]
    assert len(speedup.speedups(runs)) == 2
    with pytest.raises(RecordError, match="one plan at a time"):
        speedup.across_domains(speedup.speedups(runs))


def test_gains_past_training_pair_by_restart():
    runs = [
        run
        for domain, gain in {"json": 1.5, "chat": 1.0}.items()
        for run in (
            *arm(100.0, domain=domain), *arm(200.0, eagle3(1), domain=domain),
            *arm(300.0, eagle3(2), domain=domain), *arm(300.0 * gain, eagle3(4), domain=domain),
        )
    ]  # fmt: skip
    table = speedup.speedups(runs)
    (row,) = speedup.past_training(table, {"EAGLE-3": 2, "P-EAGLE": 1}).itertuples()
    assert (row.load, row.method, row.depth, row.num_speculative_tokens) == ("batch 1", "EAGLE-3", 2, 4)
    assert (row.estimate.value, row.estimate.n) == (pytest.approx(1.5**0.5), RESTARTS)
    for depths in (
        {},
        {"EAGLE-3": 3},
        {"EAGLE-3": 4},
        {"EAGLE-3": np.nan},
    ):  # unknown, not measured, none deeper
        assert speedup.past_training(table, depths).empty
    assert speedup.past_training(speedup.speedups([]), {}).empty
