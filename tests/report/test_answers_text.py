"""Sentences follow the records: made-up ones whose truth is the opposite of the shipped book's."""

import itertools

import pandas as pd
import pytest

import factories
from specbook.analysis import speedup
from specbook.report import tables
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


def table(found):
    return speedup.best_k(found, by=("load", "domain"))


def answer(found):
    return answers_text.speculation(table(found), speedup.best_over_domains(found))


LOSES = {0: 100.0, 1: 70.0, 5: 40.0}
WINS = {0: 100.0, 1: 150.0, 5: 120.0}


def test_where_speculation_always_loses_nothing_says_it_wins():
    found = runs(LOSES)
    told = answer(found)
    assert (
        "The fastest case, at its best K, is EAGLE-3 K=1 on json at batch 1, at **0.70×** (101 → 71 tokens/s"
        in told
    )
    assert "A server with speculation is shown to be faster in 0 of 4" in told
    lost = answers_text.losses(speedup.speedups(found))
    assert lost.startswith("8 of 8 cases came out slower than the best baseline, beyond their interval.")
    assert "The slowest of these 8 cases is EAGLE-3 K=5 (compiled)" in lost
    single = tables.settings(speedup.best_over_domains(found))
    assert set(single["fastest setting"]) == {"EAGLE-3 K=1 (compiled)"}
    assert list(single["compared with none"]) == ["slower", "slower"]


def test_each_number_bears_its_own_methods_name():
    good = table(runs({0: 100.0, 5: 250.0}, domains=["json"], batches=[1]))
    bad = table(runs({0: 100.0, 5: 50.0}, domains=["code"], batches=[1])).assign(
        method="ngram", label="ngram K=4"
    )
    both = pd.concat([good, bad], ignore_index=True)
    told = answers_text.speculation(both, single=both[:0])
    assert "The fastest case is EAGLE-3 K=5 on json at batch 1, at **2.50×**" in told
    assert "The slowest case is ngram K=4 on code at batch 1, at **0.50×**" in told


def test_that_a_method_was_picked_afterwards_is_said():
    found = runs(WINS)
    two = pd.concat([table(found), table(found).assign(method="ngram", label="ngram K=4")], ignore_index=True)
    said = answers_text.speculation(two, speedup.best_over_domains(found))
    picked = "With the fastest method of each, picked afterwards, a server with speculation is shown to be"
    assert f"{picked} faster in 4 of 4" in said
    assert "picked afterwards" not in answer(found)


def test_one_setting_for_all_stands_beside_the_best_case():
    assert "One setting for all traffic gives 1.50× [1.50, 1.50] at batch 1 (EAGLE-3 K=1)" in answer(
        runs(WINS)
    )


def test_an_arm_of_one_domain_is_no_setting_for_all():
    partial = runs({0: 100.0, 3: 300.0}, domains=["json"])
    single = speedup.best_over_domains([*runs(WINS), *partial])
    assert set(single["arm"]) == {"EAGLE-3 K=1 (compiled)"}


def test_one_combination_is_no_best_case():
    told = answer(runs(WINS, domains=["code"], batches=[8]))
    assert told.startswith(
        "**Answer.** The only case, at its best K, is EAGLE-3 K=1 on code at batch 8, at **1.50×**"
    )
    assert told.count("1.50×") == 1


def test_where_the_smallest_k_is_best_it_is_advised():
    single = tables.settings(speedup.best_over_domains(runs(WINS)))
    assert set(single["fastest setting"]) == {"EAGLE-3 K=1 (compiled)"}
    assert list(single["compared with none"]) == ["faster", "faster"]
    assert answers_text.losses(speedup.speedups(runs(WINS))).startswith("None of 8 cases came out slower")


def test_one_restart_claims_nothing_that_needs_an_interval():
    for speeds, slower in ((WINS, 0), (LOSES, 8)):
        found = runs(speeds, restarts=1)
        told, lost = answer(found), answers_text.losses(speedup.speedups(found))
        assert "no interval" in told
        assert "A server with speculation came out faster, too seldom measured for an interval, in" in told
        assert lost.startswith(f"{slower or 'None'} of 8 cases came out slower")
        assert "it may be chance" in lost
        assert "beyond" not in told + lost


@pytest.mark.parametrize("speeds", [{1: 100.0, 5: 90.0}, {0: 100.0}])
def test_without_a_baseline_or_an_arm_a_sentence_says_so(speeds):
    found = runs(speeds)
    for told in (answer(found), answers_text.losses(speedup.speedups(found))):
        assert told == answers_text.NO_PAIR
