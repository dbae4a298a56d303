"""Dollars per million tokens: known points, intervals, break-even, and what matters most."""

import pytest

from specbook.stats import Estimate, cost
from specbook.stats.cost import usd_per_million_tokens


def estimate(value, low, high) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=5, unit_of_n="restarts", method="student-t")


@pytest.mark.parametrize(
    ("rate", "usd", "utilisation", "want"),
    [(1000.0, 3.6, 1.0, 1.0), (1000.0, 3.6, 0.5, 2.0), (1e6, 3600.0, 1.0, 1.0)],
)
def test_known_points(rate, usd, utilisation, want):
    assert usd_per_million_tokens(rate, usd, utilisation) == pytest.approx(want)


def test_cost_falls_as_the_speedup_rises():
    assert usd_per_million_tokens(250.0, 4.0) == pytest.approx(usd_per_million_tokens(100.0, 4.0) / 2.5)


@pytest.mark.parametrize("args", [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1.01)])
def test_impossible_values_are_refused(args):
    with pytest.raises(ValueError, match="need positive"):
        usd_per_million_tokens(*args)


def test_the_slowest_rate_is_the_dearest_end():
    found = cost.interval(estimate(1000, 900, 1250), 3.6)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 0.8, 1 / 0.9))
    assert (found.n, found.unit_of_n) == (5, "restarts")


def test_a_rate_without_an_interval_gives_a_cost_without_one():
    found = cost.interval(estimate(1000, None, None), 3.6, 0.5)
    assert (found.value, found.low, found.high) == (2.0, None, None)


def test_the_split_pays_exactly_for_the_machine():
    found = cost.split_usd_per_million_tokens(5000, 1000, 4.0, input_share=0.3)
    paid = (found.input_usd_per_million * 5000 + found.output_usd_per_million * 1000) * 3600 / 1e6
    assert paid == pytest.approx(4.0)
    assert found.input_usd_per_million * 5000 / (found.output_usd_per_million * 1000) == pytest.approx(
        0.3 / 0.7
    )


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(ValueError, match="input share"):
        cost.split_usd_per_million_tokens(1, 1, 1, share)


def test_an_apis_bill_holds_its_prompts():
    assert cost.api_usd_per_million_output(3, 15, 2) == 21
    with pytest.raises(ValueError, match="need values >= 0"):
        cost.api_usd_per_million_output(3, 15, -1)


def test_a_speedup_below_one_is_a_cost():
    found = cost.saving(estimate(0.8, 0.5, 2.0))
    assert (found.value, found.low, found.high) == pytest.approx((-0.25, -1.0, 0.5))


def test_break_even_utilisation_is_where_both_cost_the_same():
    found = cost.break_even_utilisation(1000, 3.6, usd_per_million=4.0)
    assert usd_per_million_tokens(1000, 3.6, found) == pytest.approx(4.0)
    assert cost.break_even_utilisation(1000, 3.6, usd_per_million=0.5) > 1
    with pytest.raises(ValueError, match="positive price"):
        cost.break_even_utilisation(1000, 3.6, 0)


def test_a_tornado_changes_one_thing_the_widest_bar_first():
    base = {"output_tokens_per_s": 1000.0, "usd_per_hour": 3.6, "utilisation": 0.5}
    ranges = {"usd_per_hour": (3.0, 4.0), "utilisation": (0.2, 1.0)}
    first, second = cost.tornado(usd_per_million_tokens, base, ranges)
    assert (first.name, first.at_low, first.at_high) == ("utilisation", pytest.approx(5), pytest.approx(1))
    assert (second.name, second.low, second.high) == ("usd_per_hour", 3.0, 4.0)
    assert second.at_high - second.at_low == pytest.approx(2 / 3.6)


@pytest.mark.parametrize("ranges", [{"usd_per_hour": (4, 5)}, {"price": (1, 2)}])
def test_a_range_that_misses_the_base_case_is_refused(ranges):
    base = {"output_tokens_per_s": 1000.0, "usd_per_hour": 3.6}
    with pytest.raises(ValueError, match="does not enclose"):
        cost.tornado(usd_per_million_tokens, base, ranges)
