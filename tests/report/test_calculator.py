"""The calculator in Python: known points, and addresses that come back or are refused by name."""

import pytest

from specbook.errors import ConfigError
from specbook.report import calculator
from specbook.report.calculator import Settings

SETTINGS = Settings(
    joint=(0.8, 0.6, 0.5), k=2, batch=8, usd_per_hour=3.6, utilisation=0.5, input_per_output=2,
    rows=[
        {"batch": 1, "step_ms": 10, "verify": 1.0, "draft": 0.1},
        {"batch": 8, "step_ms": 20, "verify": 1.5, "draft": 0.25},
        {"batch": 64, "step_ms": 50, "verify": 3.0, "draft": 0.5},
    ],
)  # fmt: skip


def test_known_points():
    found = calculator.compute(SETTINGS)
    assert found.acceptance_length == pytest.approx(2.4)
    assert found.break_even_length == pytest.approx(2.0)
    assert found.speedup == pytest.approx(1.2)
    assert (found.tpot_ms, found.tokens_per_s) == pytest.approx((20 / 1.2, 480))
    assert found.usd_per_million == pytest.approx(3.6 / (480 * 0.5 * 3600) * 1e6)
    assert found.saving == pytest.approx(1 - 1 / 1.2)
    assert 8 < found.break_even_batch < 64


def test_without_speculation_nothing_is_gained():
    found = calculator.compute(SETTINGS.model_copy(update={"k": 0}))
    assert (found.speedup, found.saving, found.break_even_length) == (1.0, 0.0, 1.0)


def test_parallel_drafting_pays_for_one_pass():
    found = calculator.compute(SETTINGS.model_copy(update={"parallel": True}))
    assert found.break_even_length == pytest.approx(1.75)


def test_an_address_brings_the_settings_back():
    assert calculator.from_link("calculator.html" + calculator.link(SETTINGS)) == SETTINGS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a=0.8,0.6", "a=0.6,0.8", r"joint.*rises from 0.6 to 0.8 at position 2"),
        ("k=2", "k=9", "K = 9 is more than the 3 positions"),
        ("k=2", "k=two", "k .*got 'two'"),
        ("u=0.5", "u=1.5", "utilisation .*got '1.5'"),
        ("u=0.5", "u=0", "utilisation"),
        ("b=8", "b=9", "batch 9 has no row"),
        ("d=serial", "d=both", "'both' is missing, or no such word"),
        ("&usd=3.6", "", "'usd' is missing"),
        ("m=1:10:1:0.1", "m=1:10:1", "in m"),
        ("m=1:10", "m=100:10", "batches have to rise"),
        ("usd=3.6", "usd=-1", "usd_per_hour"),
        ("usd=3.6", "usd=nan", "usd_per_hour"),
    ],
)
def test_an_address_with_nonsense_is_refused_by_name(old, new, message):
    address = calculator.link(SETTINGS)
    assert old in address
    with pytest.raises(ConfigError, match=message):
        calculator.from_link(address.replace(old, new))
