"""Tidy tables over made-up records: what is pooled, what is paired, what is refused."""

import numpy as np
import pandas as pd
import pytest

from factories import counters, eagle3, failed_run, point, rows, target, write_run
from specbook import comparisons, summaries
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


def test_latency_percentiles_say_whether_n_is_enough():
    table = summaries.latency_table([write_run(point(num_requests=20), 100.0)])
    row = table.set_index(["metric", "q"])
    assert row.loc[("ttft_s", 0.5), "value"] == pytest.approx(0.02)
    assert row.loc[("ttft_s", 0.5), "enough"]
    assert not row.loc[("ttft_s", 0.99), "enough"]
    assert row.loc[("itl_s", 0.5), "n"] == 200
    assert set(table["metric"]) == set(summaries.LATENCIES)


def test_latency_pools_restarts_and_on_demand_domains():
    runs = [*arm(100.0, restarts=2), *arm(100.0, restarts=2, domain="chat")]
    assert summaries.latency_table(runs)["n"].min() == 8
    assert summaries.latency_table(runs, by=("arm", "load"))["n"].min() == 16


def test_single_stream_decode_speed_leaves_the_first_token_out():
    got = summaries.throughput([write_run(point(), 100.0)])
    assert got["decode_tokens_per_s"].iloc[0] == pytest.approx(100.0, rel=0.01)


def test_speedup_is_against_the_faster_baseline_of_each_load():
    runs = [
        *arm(100.0), *arm(60.0, **EAGER), *arm(250.0, eagle3()),
        *arm(300.0, concurrency=8), *arm(400.0, concurrency=8, **EAGER), *arm(200.0, eagle3(), concurrency=8),
    ]  # fmt: skip
    table = comparisons.speedups(runs).set_index(["load", "arm"])
    one, eight = (
        table.loc[("batch 1", "EAGLE-3 K=5 (compiled)")],
        table.loc[("batch 8", "EAGLE-3 K=5 (compiled)")],
    )
    assert (one["baseline"], eight["baseline"]) == ("baseline (compiled)", "baseline (eager)")
    assert (one["speedup"], eight["speedup"]) == pytest.approx((2.5, 0.5))
    assert one["baseline_tokens_per_s"] == pytest.approx(100.0, rel=0.01)
    assert (one["n"], one["ci_method"]) == (RESTARTS, "bootstrap-t")
    assert one["low"] <= one["speedup"] <= one["high"]
    assert table.loc[("batch 1", "baseline (eager)"), "speedup"] == pytest.approx(0.6)


def test_a_named_baseline_is_used_as_named():
    table = comparisons.speedups(
        [*arm(100.0), *arm(60.0, **EAGER), *arm(250.0, eagle3())], baseline="baseline (eager)"
    )
    got = table.set_index("arm").loc["EAGLE-3 K=5 (compiled)", "estimate"]
    assert got.value == pytest.approx(250 / 60)
    assert got.format("x").endswith("n=5 restarts")


def test_only_restarts_in_both_arms_are_paired():
    table = comparisons.speedups([*arm(100.0, restarts=3), *arm(200.0, eagle3(), restarts=5)])
    assert table["n"].tolist() == [3]


def test_different_setups_are_never_compared():
    assert comparisons.speedups([*arm(100.0), *arm(200.0, eagle3(), num_requests=5)]).empty
    assert comparisons.speedups([*arm(100.0), *arm(200.0, eagle3(), domain="chat")]).empty
    assert comparisons.speedups([]).empty


def test_two_drafts_of_one_name_are_refused():
    with pytest.raises(RecordError, match="EAGLE-3 K=5"):
        comparisons.speedups([*arm(100.0), *arm(200.0, eagle3()), *arm(220.0, eagle3(model="models/other"))])


def test_each_method_competes_at_its_own_best_k():
    peagle = {"parallel_drafting": True, "model": "models/peagle"}
    runs = [
        *arm(100.0), *arm(150.0, eagle3(3)), *arm(180.0, eagle3(5)), *arm(170.0, eagle3(8)),
        *arm(200.0, eagle3(5, **peagle)), *arm(260.0, eagle3(8, **peagle)),
    ]  # fmt: skip
    table = comparisons.best_k(runs).set_index("method")["num_speculative_tokens"]
    assert table.to_dict() == {"EAGLE-3": 5, "P-EAGLE": 8}


def test_best_k_over_domains_is_macro_and_per_domain_on_demand():
    runs = [
        *arm(100.0), *arm(100.0, domain="chat"),
        *arm(300.0, eagle3(8)), *arm(50.0, eagle3(8), domain="chat"),
        *arm(200.0, eagle3(3)), *arm(110.0, eagle3(3), domain="chat"),
    ]  # fmt: skip
    assert comparisons.best_k(runs)["num_speculative_tokens"].tolist() == [3, 3]
    per_domain = comparisons.best_k(runs, by=("load", "domain")).set_index("domain")["num_speculative_tokens"]
    assert per_domain.to_dict() == {"json": 8, "chat": 3}


def test_a_mean_over_domains_stands_beside_its_worst_domain():
    runs = [
        *arm(100.0), *arm(100.0, domain="chat"), *arm(400.0, eagle3()), *arm(100.0, eagle3(), domain="chat")
    ]  # fmt: skip
    got = comparisons.across_domains(comparisons.speedups(runs)).iloc[0]
    assert (got["speedup"], got["worst"], got["best"], got["cells"]) == pytest.approx((2.0, 1.0, 4.0, 2))


def test_averaging_refuses_two_plans_at_once():
    runs = [
        *arm(100.0),
        *arm(200.0, eagle3()),
        *arm(100.0, num_requests=5),
        *arm(200.0, eagle3(), num_requests=5),
    ]
    assert len(comparisons.speedups(runs)) == 2
    with pytest.raises(RecordError, match="one plan at a time"):
        comparisons.across_domains(comparisons.speedups(runs))


def test_a_median_carries_the_doubt_of_its_restarts():
    table = summaries.medians([*arm(100.0), *arm(100.0, domain="chat")], by=("arm", "load"))
    row = table[table["metric"] == "tpot_s"].iloc[0]
    assert row["estimate"].value == pytest.approx(0.01, rel=0.03)
    assert (row["estimate"].n, row["estimate"].unit_of_n) == (RESTARTS, "restarts")
    assert row["estimate"].low < row["estimate"].value < row["estimate"].high


def test_the_tail_with_domains_pooled_has_their_samples_together():
    names = ("json", "chat")
    runs = [write_run(point(domain=name, num_requests=250), 100.0) for name in names]
    runs += [write_run(point(eagle3(), domain=name, num_requests=250), 50.0) for name in names]
    got = comparisons.tails(runs).set_index(["metric", "domain"]).loc["tpot_s"]
    assert got["n"].to_dict() == {"json": 250, "chat": 250, comparisons.POOLED: 500}
    assert got["enough"].to_dict() == {"json": False, "chat": False, comparisons.POOLED: True}


@pytest.mark.parametrize(("n", "enough"), [(20, False), (500, True)])
def test_the_tail_is_compared_only_where_samples_allow(n, enough):
    runs = [write_run(point(num_requests=n), 100.0), write_run(point(eagle3(), num_requests=n), 50.0)]
    got = comparisons.p99_delta(runs).set_index("metric").loc["tpot_s"]
    assert got["delta_s"] == pytest.approx(0.01, rel=0.03)
    assert (got["enough"], pd.notna(got["low_s"])) == (enough, enough)
    assert not enough or got["low_s"] <= got["delta_s"] <= got["high_s"]
