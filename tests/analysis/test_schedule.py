"""A schedule of K: the best lower bound at each batch, nothing where none reaches 1, on made-up speeds."""

import itertools

import pytest

import factories
from specbook import config, records
from specbook.analysis import schedule, speedup
from specbook.config.schema import Speculation
from specbook.errors import RecordError
from specbook.report.text import answers_text

BASE = 100.0


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def p_eagle(k):
    return factories.eagle3(k, parallel_drafting=True, model="models/p-eagle")


def suffix(k):
    return Speculation(method="suffix", num_speculative_tokens=k)


def runs(ratios, *, draft=factories.eagle3, restarts=3, spread=None, full=True):
    """Records in which K at a batch is `ratios[batch][K]` times as fast as the baseline.

    `spread[batch, K]` is by how much its ratio differs between restarts.
    """
    found = []
    for batch, restart in itertools.product(ratios, range(restarts)):
        for k, ratio in {0: 1.0, **ratios[batch]}.items():
            where = factories.point(draft(k) if k else None, concurrency=batch, restart=restart)
            wide = 1 + (restart - 1) * (spread or {}).get((batch, k), 0.001)
            run = factories.write_run(where, BASE * batch * ratio * wide, requests=factories.rows())
            held = {"mean_concurrency": batch * 1.0 if full else batch / 2} if batch > 1 else {}
            found.append(run.model_copy(update={"measurement": run.measurement.model_copy(update=held)}))
    return found


def of(found, max_num_seqs=32):
    (only,) = schedule.schedules(schedule.measured(found), max_num_seqs)
    return only


def ranges(made):
    return [(row.first, row.last, row.k) for row in made.rows]


def test_the_best_lower_bound_goes_before_the_mean():
    steady = runs({1: {1: 1.4, 5: 1.5}}, spread={(1, 5): 0.0})
    assert of(steady).rows[0].k == 5
    noisy = runs({1: {1: 1.4, 5: 1.5}}, spread={(1, 5): 0.1})
    row = of(noisy).rows[0]
    assert row.k == 1
    assert row.bound == pytest.approx(1.4, abs=0.01)


def test_bounds_that_agree_are_a_tie_for_the_smaller_k():
    assert of(runs({1: {3: 1.500, 5: 1.501, 8: 1.498}})).rows[0].k == 3


def test_nothing_is_drafted_where_no_bound_reaches_one():
    made = of(runs({1: {1: 1.3}, 8: {1: 1.02}}, spread={(8, 1): 0.05}))
    assert ranges(made) == [(1, 1, 1), (2, 8, 0), (9, 32, 0)]
    assert made.rows[1].shown.k == 1
    assert made.rows[1].bound == 1.0


def test_what_a_server_is_given():
    made = of(runs({1: {1: 1.3, 5: 1.6}, 8: {1: 1.2, 5: 1.1}}))
    assert made.draft == factories.eagle3(
        5, num_speculative_tokens_per_batch_size=((1, 1, 5), (2, 8, 1), (9, 32, 0))
    )


def test_a_smaller_server_has_fewer_rows():
    found = runs({1: {5: 1.6}, 8: {5: 1.1}, 32: {5: 0.9}})
    assert ranges(of(found, 4)) == [(1, 1, 5), (2, 4, 5)]
    assert of(found, 4).draft == factories.eagle3(5)


def test_where_it_never_helps_there_is_no_draft():
    assert of(runs({1: {1: 0.9, 5: 0.7}, 8: {1: 0.8}})).draft is None


def test_a_parallel_head_drafts_one_k_or_nothing():
    made = of(runs({1: {3: 1.5, 8: 1.9}, 8: {3: 1.2, 8: 1.1}, 32: {3: 0.8, 8: 0.9}}, draft=p_eagle))
    assert ranges(made) == [(1, 1, 8), (2, 8, 8), (9, 32, 0)]


def test_suffix_decoding_keeps_one_k_or_is_left_out():
    both = {1: {4: 1.5, 8: 1.9}, 8: {4: 1.2, 8: 0.9}}
    assert of(runs(both, draft=suffix)).draft == suffix(4)
    assert ranges(of(runs(both, draft=suffix)))[-1] == (9, 32, 4)
    assert of(runs({1: {8: 1.9}, 8: {8: 0.9}}, draft=suffix)).draft is None


@pytest.mark.parametrize(("restarts", "more"), [(1, 2), (2, 1)])
def test_too_few_restarts_are_refused_with_how_many_more(restarts, more):
    found = runs({1: {5: 1.6}}, restarts=restarts)
    with pytest.raises(RecordError, match=rf"measure {more} more .*--set restarts=3"):
        of(found)


def test_slots_that_were_not_full_do_not_count():
    found = runs({8: {5: 1.6}}, full=False)
    with pytest.raises(RecordError, match="of 6 closed loops, 0 with all slots taken"):
        schedule.measured(found)


def test_a_measured_schedule_is_not_one_k():
    by_batch = {"num_speculative_tokens_per_batch_size": ((1, 1, 5), (2, 32, 0))}
    found = [
        *runs({1: {5: 1.2}}),
        *runs({1: {5: 1.9}}, draft=lambda k: factories.eagle3(k, **by_batch)),
    ]
    assert [one.estimate.value for one in schedule.measured(found)] == [pytest.approx(1.2, abs=0.01)]


def test_the_best_method_at_each_batch_takes_a_restart():
    found = [
        *runs({1: {5: 1.6}, 8: {5: 1.1}}),
        *runs({1: {8: 1.3}, 8: {8: 1.2}}, draft=p_eagle),
    ]
    made = schedule.schedules(schedule.measured(found), 8)
    first, second, said = answers_text.side_by_side(made)
    assert [one.method for one in made] == ["EAGLE-3", "P-EAGLE"]
    assert first == "batch 1: EAGLE-3 K=5"
    assert second == "batch 8: P-EAGLE K=8"
    assert "another method is a restart" in said
    assert "EAGLE-3 gains most, 1.33×" in said


def test_reasons_name_the_interval_and_what_would_settle_it():
    made = of(runs({1: {1: 1.3}, 8: {1: 1.04}}, spread={(8, 1): 0.02}))
    won, undecided, unmeasured, idle = answers_text.reasons(made)
    assert won.startswith("batch 1: K=1, the best lower bound: 1.30× [")
    assert "n=3 restarts × 4 prompts at batch 1" in won
    assert undecided.startswith("batch 2 to 8: K=0, no K is shown to be as fast, the nearest is K=1: 1.04× [")
    assert undecided.endswith("more restarts like these would show it")
    assert unmeasured == "batch 9 to 32: K=0, nothing was measured there"
    assert idle.startswith("at K=0 the draft still runs one pass a step")
    assert len(answers_text.reasons(of(runs({1: {1: 1.3}}), 1))) == 1


@pytest.mark.usefixtures("project")
def test_shipped_records_give_the_bounds_of_the_book():
    found = records.replay(config.load("02_eagle3", "cpu", "full"))
    made, table = of(found), speedup.speedups(found)
    assert [row.last for row in made.rows if row.shown] == [1, 8, 32]
    for row in made.rows:
        cells = table[table["load"] == f"batch {row.shown.batch}"].groupby("arm")
        lows = [speedup.over_domains(cell).low for _, cell in cells]
        assert row.bound == (pytest.approx(max(lows), abs=0.01) if row.k else 1.0)
        assert (row.k > 0) == (max(lows) >= 1)


def test_a_row_of_0_has_its_measured_price():
    ratios = {1: {5: 1.6, SCHEDULED: 1.6}, 8: {1: 0.8, 5: 0.95, SCHEDULED: 0.9}}
    found = runs(ratios, draft=or_scheduled)
    assert [(one.batch, one.k) for one in schedule.measured(found)] == [(1, 5), (8, 0), (8, 1), (8, 5)]
    made = of(found, 8)
    assert made.rows[1].k == 5
    assert made.draft == factories.eagle3(5)
    assert "0.95× [" in (said := answers_text.reasons(made)[1])
    assert said.endswith("and not shown to be as fast as no speculation")
    dear = of(runs(ratios | {8: {5: 0.8, SCHEDULED: 0.9}}, draft=or_scheduled), 8)
    assert ranges(dear) == [(1, 1, 5), (2, 8, 0)]
    assert dear.rows[1].bound == pytest.approx(0.9, abs=0.01)
    assert len(answers_text.reasons(dear)) == 2  # its price is known


ROWS = ((1, 1, 5), (2, 32, 0))
SCHEDULED = 9


def or_scheduled(k):
    """The fixed K; SCHEDULED is the draft with rows."""
    rows = {"num_speculative_tokens_per_batch_size": ROWS} if k == SCHEDULED else {}
    return factories.eagle3(5 if rows else k, **rows)


def test_a_measured_schedule_is_beside_the_best_k_of_its_batch():
    ratios = {8: {1: 1.2, 5: 1.1, SCHEDULED: 1.0}, 1: {1: 1.4, 5: 1.6, SCHEDULED: 1.5}}
    found = schedule.beside_fixed(runs(ratios, draft=or_scheduled))
    assert list(found[["concurrency", "k", "best"]].itertuples(index=False, name=None)) == [
        (1, 5, 5),
        (8, 0, 1),
    ]
    assert [one.value for one in found["over_none"]] == pytest.approx([1.5, 1.0], rel=0.01)
    assert [one.value for one in found["over_best"]] == pytest.approx([1.5 / 1.6, 1.0 / 1.2], rel=0.01)
    assert all(one.low for one in found["over_best"])


def test_without_a_schedule_or_a_fixed_k_nothing_is_beside():
    for ratios in ({1: {1: 1.4}}, {1: {SCHEDULED: 1.4}}, {}):
        assert schedule.beside_fixed(runs(ratios, draft=or_scheduled)).empty


def test_the_answer_names_the_batches_of_the_lowest_bounds():
    ratios = {1: {5: 1.6, SCHEDULED: 1.6}, 8: {5: 0.9, SCHEDULED: 0.97}}
    measured = runs(ratios, draft=or_scheduled)
    beside = schedule.beside_fixed(measured)
    chosen = schedule.schedules(schedule.measured(measured), 32)
    said = answers_text.schedule(chosen, "K=5", beside, {"rows": {"EAGLE-3 K=5": beside["over_none"][1]}})
    assert "EAGLE-3 drafts 5 tokens at batch 1, nothing at batch 2 to 8 and nothing at batch 9 to 32" in said
    assert "was measured, K=5, does worst against no speculation at batch 8, at **0.97× [" in said
    assert "best fixed K of each batch at batch 1, at **1.00× [" in said
    assert "in the geometric mean of days:\n\n- with rows **0.97× [" in said
    assert said.endswith("** that of EAGLE-3 K=5, n=3 restarts × 4 prompts")
    assert answers_text.schedule([], "K=5", beside[:0], {}).startswith("**Answer.** No schedule can be made")
