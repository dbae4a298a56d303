"""Sentences follow the records: made-up ones whose truth is the opposite of the shipped book's."""

import itertools

import pandas as pd
import pytest

import factories
from specbook.analysis import speedup
from specbook.report.text import answers_text


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def runs(speeds, *, restarts=3, domains=("json", "code"), batches=(1, 8)):
    """Records in which an arm (K, 0 the baseline) has the speed `speeds[K]`, a little more each restart."""
    found = []
    for restart, domain, batch, k in itertools.product(range(restarts), domains, batches, speeds):
        where = factories.point(
            factories.eagle3(k) if k else None, domain=domain, concurrency=batch, restart=restart
        )
        found.append(factories.write_run(where, speeds[k] * (1 + restart / 100)))
    return found


def table(found, by=("load", "domain")):
    return speedup.best_k(found, by=by)


LOSES = {0: 100.0, 1: 70.0, 5: 40.0}
WINS = {0: 100.0, 1: 150.0, 5: 120.0}


def test_where_speculation_always_loses_nothing_says_it_wins():
    found = runs(LOSES)
    told = answers_text.speculation(table(found))
    assert "**0.70×**" in told
    assert "it is faster in 0 of 4" in told
    lost = answers_text.losses(speedup.speedups(found))
    assert lost.startswith("8 of 8 arms were slower than the best baseline, beyond their interval.")
    assert "EAGLE-3 K=5 (compiled)" in lost
    advice = answers_text.advice(found).splitlines()
    assert len(advice) == 2
    assert all("no speculation; the least bad is EAGLE-3 K=1" in line for line in advice)


def test_each_number_bears_its_own_methods_name():
    good = table(runs({0: 100.0, 5: 250.0}, domains=["json"], batches=[1]))
    bad = table(runs({0: 100.0, 5: 50.0}, domains=["code"], batches=[1])).assign(
        method="ngram", label="ngram K=4"
    )
    told = answers_text.speculation(pd.concat([good, bad], ignore_index=True))
    assert "Where it helps most, EAGLE-3 K=5 runs at **2.50×**" in told
    assert "where it hurts most at the one K measured, ngram K=4 at **0.50×**" in told
    assert "picked afterwards, the median of the kinds of traffic is 1.50× at batch 1; it is faster" in told


def test_a_best_k_is_claimed_where_k_was_swept():
    assert "**Answer.** At its best K, EAGLE-3" in answers_text.speculation(table(runs(WINS)))
    assert "**Answer.** At the one K measured, EAGLE-3" in answers_text.speculation(
        table(runs({0: 100.0, 5: 90.0}))
    )


def test_one_setting_for_all_stands_beside_a_method_each():
    found = runs(WINS)
    two = pd.concat([table(found), table(found).assign(method="ngram", label="ngram K=4")], ignore_index=True)
    said = answers_text.speculation(two, speedup.best_over_domains(found))
    assert "One setting for all traffic gives 1.50× [1.50, 1.50] at batch 1 (EAGLE-3 K=1)" in said
    assert "One setting" not in answers_text.speculation(two)


def test_where_the_smallest_k_is_best_it_is_advised():
    advice = answers_text.advice(runs(WINS)).splitlines()
    assert all("**: EAGLE-3 K=1" in line for line in advice)
    assert answers_text.losses(speedup.speedups(runs(WINS))).startswith("No arm was slower")


def test_one_restart_claims_nothing_that_needs_an_interval():
    for speeds, slower in ((WINS, 0), (LOSES, 8)):
        found = runs(speeds, restarts=1)
        told, lost = answers_text.speculation(table(found)), answers_text.losses(speedup.speedups(found))
        assert "no interval" in told
        assert "measured too seldom for an interval, it came out faster in" in told
        assert lost.startswith(f"{slower} of 8 arms came out slower")
        assert "chance either way" in lost
        assert "beyond" not in told + lost


def test_one_domain_is_not_called_a_ranking():
    told = answers_text.by_domain(table(runs(WINS, domains=["code"])))
    assert told == "At batch 1, code (1.50×) is the only domain that was measured."


def test_domains_are_told_in_the_order_of_the_records():
    slow, fast = runs(LOSES, domains=["json"]), runs(WINS, domains=["code"])
    assert answers_text.by_domain(table([*slow, *fast])).endswith("code (1.50×), json (0.70×).")


@pytest.mark.parametrize("speeds", [{1: 100.0, 5: 90.0}, {0: 100.0}])
def test_without_a_baseline_or_an_arm_a_sentence_says_so(speeds):
    found = runs(speeds)
    for told in (
        answers_text.speculation(table(found)), answers_text.losses(speedup.speedups(found)),
        answers_text.advice(found), answers_text.by_domain(table(found)),
    ):  # fmt: skip
        assert told == answers_text.NO_PAIR
