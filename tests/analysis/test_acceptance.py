"""Acceptance from raw counters: definitions, averages, counters that cannot be true."""

import numpy as np
import pytest

from factories import counters, eagle3, failed_run, point, rows, write_run
from specbook.analysis import acceptance
from specbook.errors import RecordError
from specbook.records.run import SpecDecodeCounters

NOTHING = SpecDecodeCounters(
    num_drafts=0, num_draft_tokens=0, num_accepted_tokens=0, num_accepted_tokens_per_pos=(0, 0)
)


def test_known_points():
    got = counters((80, 50, 30), drafts=100)
    assert acceptance.rate(got) == pytest.approx(160 / 300)
    assert acceptance.length(got) == pytest.approx(2.6)
    assert acceptance.joint(got) == pytest.approx([0.8, 0.5, 0.3])
    assert acceptance.conditional(got) == pytest.approx([0.8, 0.625, 0.6])


def test_length_is_one_plus_the_sum_of_the_joint_rates():
    got = counters((7, 5, 2, 1), drafts=9)
    assert acceptance.length(got) == pytest.approx(1 + sum(acceptance.joint(got)))


def test_conditional_rates_multiply_back_to_the_joint():
    got = counters((9, 6, 3, 1), drafts=10)
    assert np.cumprod(acceptance.conditional(got)) == pytest.approx(acceptance.joint(got))


def test_conditional_is_nan_where_no_draft_got_that_far():
    assert acceptance.conditional(counters((5, 0, 0), drafts=10)) == pytest.approx(
        [0.5, 0.0, np.nan], nan_ok=True
    )


def test_nothing_drafted_is_not_a_rate_of_zero():
    assert np.isnan(acceptance.rate(NOTHING))
    assert np.isnan(acceptance.length(NOTHING))
    assert np.isnan(acceptance.joint(NOTHING)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_accepted_tokens_per_pos": (30, 50, 80)}, "rise"),
        ({"num_accepted_tokens_per_pos": (120, 30, 10)}, "rise"),
        ({"num_accepted_tokens": 150}, "sum to 160"),
        ({"num_draft_tokens": 100}, "160 of 100"),
    ],
)
def test_counters_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(RecordError, match=message):
        acceptance.length(counters().model_copy(update=changes))


def test_micro_weighs_tokens_and_macro_weighs_domains():
    long, short = counters((900, 900), drafts=1000), counters((1, 0), drafts=10)
    micro = acceptance.length(acceptance.pool([long, short]))
    assert micro == pytest.approx(1 + 1801 / 1010)
    assert acceptance.macro([acceptance.length(long), acceptance.length(short)]) == pytest.approx(
        (2.8 + 1.1) / 2
    )


@pytest.mark.parametrize("rows", [[], [counters((5, 1)), counters((5, 1, 0))]])
def test_pooling_nothing_or_different_k_is_refused(rows):
    with pytest.raises(ValueError, match="one K"):
        acceptance.pool(rows)


def test_macro_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        acceptance.macro([])


def test_length_interval_holds_the_micro_average():
    rng = np.random.default_rng(0)
    restarts = [counters(sorted(rng.integers(20, 90, size=3), reverse=True)) for _ in range(6)]
    got = acceptance.length_ci(restarts)
    assert got.value == pytest.approx(acceptance.length(acceptance.pool(restarts)))
    assert got.low < got.value < got.high


def test_by_domain_pools_restarts_that_drafted(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    runs = [
        write_run(point(eagle3(3), domain=domain, restart=restart), 100.0, spec_decode=counters(per_pos))
        for domain, per_pos in {"json": (90, 80, 70), "chat": (50, 20, 10)}.items()
        for restart in range(3)
    ]
    idle = write_run(point(eagle3(2)), 100.0, spec_decode=NOTHING)
    table = acceptance.by_domain([*runs, idle, write_run(point(), 100.0), failed_run(point(restart=9))])
    assert list(table["domain"]) == ["json", "chat"]
    assert list(table["length"]) == pytest.approx([3.4, 1.8])
    assert list(table["num_drafts"]) == [300, 300]
    assert table["restarts"].eq(3).all()
    assert table["joint"].iloc[1] == pytest.approx([0.5, 0.2, 0.1])
    assert table["conditional"].iloc[1] == pytest.approx([0.5, 0.4, 0.5])
    assert table["trained_depth"].isna().all()
    told = runs[0].provenance.model_copy(update={"draft_trained_depth": 2})
    again = acceptance.by_domain([runs[0].model_copy(update={"provenance": told}), *runs[1:]])
    assert again["trained_depth"].fillna(0).tolist() == [2, 0]


def test_a_handful_of_drafts_gives_no_acceptance_rate(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    run = write_run(point(eagle3(3)), 100.0, spec_decode=counters((10, 9, 9)))
    (held,) = acceptance.by_domain([run])["conditional"]
    assert held == pytest.approx([0.1, 0.9, np.nan], nan_ok=True)


def test_repeated_answers_add_no_distinct_drafts(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    found = {"json": ["x", "x", "x"], "chat": ["x", "y", "z"]}
    runs = [
        write_run(
            point(eagle3(2), domain=domain, restart=restart), 100.0, spec_decode=counters((5, 4)),
            requests=rows().assign(text=text),
        )
        for domain, texts in found.items() for restart, text in enumerate(texts)
    ]  # fmt: skip
    repeated, distinct = acceptance.by_domain(runs)["conditional"]
    assert repeated == pytest.approx([0.05, np.nan], nan_ok=True)  # the same 5 drafts came so far, thrice
    assert distinct == pytest.approx([0.05, 0.8])
