"""Structured against open-ended prompts: gains by hand, and what may be said of a clock that stayed."""

import pytest

import factories
from specbook.analysis import traffic
from specbook.stats.estimate import Estimate

SPEEDS = {("json", 5): 300.0, ("math", 5): 400.0, ("prose", 5): 90.0, ("json", 7): 200.0, ("prose", 7): 120.0}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Baselines of 100 tokens/s, and arms at SPEEDS; the restarts differ by what cancels in a pair."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    found = []
    for restart, mood in enumerate((1.0, 1.1, 0.9)):
        for domain in ("json", "math", "prose"):
            found.append(factories.write_run(factories.point(domain=domain, restart=restart), 100.0 * mood))
        for (domain, k), speed in SPEEDS.items():
            where = factories.point(factories.eagle3(k), domain=domain, restart=restart)
            counters = factories.counters((80,) * k)
            found.append(factories.write_run(where, speed * mood, spec_decode=counters))
    return found


def test_a_kind_is_the_geometric_mean_of_its_domains(runs):
    table = traffic.gains(runs).set_index(["num_speculative_tokens", "traffic"])
    assert table.loc[(5, "structured"), "speedup"] == pytest.approx(12**0.5)
    assert table.loc[(5, "structured"), "domains"] == ("json", "math")
    assert table.loc[(7, "structured"), "speedup"] == pytest.approx(2.0)
    assert table.loc[(5, "open-ended"), "speedup"] == pytest.approx(0.9)


def test_each_kind_of_traffic_has_its_own_best_k(runs):
    best = traffic.best(traffic.gains(runs))
    assert list(best["num_speculative_tokens"]) == [5, 7]
    (one,) = traffic.contrast(best)
    assert one["ratio"].value == pytest.approx(12**0.5 / 1.2)
    assert one["ratio"].n == 3


def test_a_restart_that_lacks_a_domain_is_left_out(runs):
    kept = [
        run for run in runs
        if not (run.point.restart == 2 and run.point.traffic.domain == "math" and run.point.speculation)
    ]  # fmt: skip
    table = traffic.gains(kept).set_index(["num_speculative_tokens", "traffic"])
    assert table.loc[(5, "structured"), "estimate"].n == 2
    assert table.loc[(7, "structured"), "estimate"].n == 3


def test_lengths_count_each_domain_once(runs):
    table = traffic.lengths(runs).set_index(["num_speculative_tokens", "traffic"])
    assert table.loc[(5, "structured"), "length"] == pytest.approx(1 + 5 * 0.8)


def test_one_kind_alone_has_no_contrast(runs):
    json = [run for run in runs if run.point.traffic.domain == "json"]
    assert traffic.contrast(traffic.best(traffic.gains(json))) == []
    plain = [run for run in runs if run.point.speculation is None]
    tables = traffic.gains(plain), traffic.best(traffic.gains(plain)), traffic.lengths(plain)
    assert all(table.empty for table in (*tables, traffic.first_token(plain)))


def test_the_best_arms_first_token_is_compared(runs):
    table = traffic.first_token(runs).set_index("metric")
    assert set(table["method"]) == {"EAGLE-3"}
    assert table.loc["ttft_s", "estimate"].value == pytest.approx(0.0)
    assert table.loc["tpot_s", "arm_s"] < table.loc["tpot_s", "baseline_s"]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.04, 0.04, "unchanged"), (0.01, 0.05, "unchanged"), (0.06, 0.2, "changed"),
        (-0.2, -0.06, "changed"), (-0.3, 0.3, "undecided"), (0.04, 0.06, "undecided"),
        (None, None, "no interval"),
    ],
)  # fmt: skip
def test_unchanged_takes_the_whole_interval(low, high, said):
    change = Estimate(value=0.0, low=low, high=high, n=20, unit_of_n="prompts", method="prompts-and-restarts")
    assert traffic.verdict(change, 1.0) == said
