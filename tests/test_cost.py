"""Dollars per million tokens, and prices that carry their source."""

import pytest

from specbook import cost
from specbook.cost import hourly_price, load_prices, usd_per_million_tokens
from specbook.errors import ConfigError


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


def test_every_listed_price_has_its_source():
    prices = load_prices()
    assert prices
    assert all(p.source and p.date for p in prices.values())
    assert prices["trn2.48xlarge capacity block"].usd_per_hour / 16 == pytest.approx(2.235, abs=1e-3)


def test_no_price_is_assumed_for_a_cpu_host():
    assert all(price.accelerators for price in load_prices().values())
    assert hourly_price(None, usd_per_hour=0.2) == 0.2
    with pytest.raises(ConfigError, match="set --usd-per-hour"):
        hourly_price("my laptop")


GOOD = "- {name: a, usd_per_hour: 1, accelerators: 1, source: s, date: 2026-01-01}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {name: a, usd_per_hour: 1, accelerators: 1, date: 2026-01-01}", "source"),
        ("- {name: a, usd_per_hour: 1, accelerators: 1, source: s}", "date"),
        ("- {name: a, usd_per_hour: -1, accelerators: 1, source: s, date: 2026-01-01}", "usd_per_hour"),
        ("- {name: a", "cannot read"),
        (GOOD + GOOD, "twice"),
    ],
)
def test_a_price_without_source_or_date_is_refused(monkeypatch, tmp_path, text, message):
    (tmp_path / "prices.yaml").write_text(text)
    monkeypatch.setattr(cost.paths, "params_dir", lambda: tmp_path)
    with pytest.raises(ConfigError, match=message):
        load_prices()
