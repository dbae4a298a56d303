import numpy as np
import pandas as pd
import pytest

import factories
import synthetic
from specbook import records
from specbook.analysis import acceptance, prediction, speedup, summaries
from specbook.config import Plan
from specbook.records.run import Round
from specbook.stats import theory


def costs(ks, verify=1.2, draft=0.1):
    return pd.DataFrame(
        {
            "method": "EAGLE-3",
            "concurrency": 1,
            "num_speculative_tokens": ks,
            "cost": [verify + draft * k for k in ks],
        }
    )


def test_prices_find_the_line_they_were_made_from():
    (row,) = prediction.prices(costs([1, 3, 5, 7])).itertuples()
    assert (row.fixed_cost, row.draft_cost) == pytest.approx((1.2, 0.1))
    assert (row.num_speculative_tokens, row.break_even_length) == pytest.approx((7, 1.9))


def test_one_k_cannot_tell_verifying_from_drafting():
    (row,) = prediction.prices(costs([5])).itertuples()
    assert np.isnan(row.fixed_cost)
    assert np.isnan(row.draft_cost)


def curve(method, verify, draft, alpha, column):
    """A method's speed-up at K = 1..8, in one domain at one load."""
    ks = range(1, 9)
    gains = [theory.expected_acceptance_length(alpha, k) / (verify + draft * k) for k in ks]
    return pd.DataFrame(
        {"load": "batch 1", "domain": "json", "method": method, "num_speculative_tokens": ks, column: gains}
    )


def both(column, serial=(1.2, 0.2, 0.9), parallel=(1.9, 0.02, 0.88)):
    return pd.concat([curve("EAGLE-3", *serial, column), curve("P-EAGLE", *parallel, column)])


def test_the_crossover_is_where_parallel_drafting_wins():
    row, single = prediction.crossovers(both("speedup"), both("predicted"), "EAGLE-3", "P-EAGLE").itertuples()
    assert (row.domain, single.domain) == (prediction.AVERAGED, "json")
    assert row[3:] == single[3:]  # of one domain
    lead = [
        (theory.expected_acceptance_length(0.88, k) / (1.9 + 0.02 * k))
        - (theory.expected_acceptance_length(0.9, k) / (1.2 + 0.2 * k))
        for k in range(1, 9)
    ]
    last_loss = max(k for k, gain in enumerate(lead, start=1) if gain <= 0)
    assert last_loss < row.measured < last_loss + 1
    assert row.measured == row.predicted
    assert (row.smallest, row.largest) == (1, 8)


def test_methods_that_never_or_always_win_have_no_crossover():
    never = both("speedup", parallel=(3.0, 0.0, 0.1))
    always = both("predicted", parallel=(1.0, 0.0, 0.95))
    row, _ = prediction.crossovers(never, always, "EAGLE-3", "P-EAGLE").itertuples()
    assert np.isnan(row.measured)
    assert row.predicted == 1.0
    assert prediction.crossovers(never, always, "EAGLE-3", "suffix").empty


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Made-up records of EAGLE-3 at K = 1, 3, 6 beside a baseline."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    made = Plan(
        chapter="test", hardware="cpu", group="full", target=factories.target(), baselines=("compiled",),
        drafts=({"method": "ngram"},), num_speculative_tokens=(1, 3, 6), domains=("json",), concurrency=(1,),
        num_requests={1: 200}, max_tokens=128, restarts=2,
    )  # fmt: skip
    synthetic.write(made)
    return records.load()


def test_prices_pair_by_round_and_ignore_machine_drift(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))

    def measured(speculation, tokens_per_s, together):
        name = f"{together}-{speculation.num_speculative_tokens if speculation else 0}"
        return factories.write_run(
            factories.point(speculation), tokens_per_s, together=Round(id=together), run_id=name
        )

    runs = [
        measured(None, 100.0, "slow"), measured(factories.eagle3(1), 60.0, "slow"),
        measured(None, 200.0, "fast"), measured(factories.eagle3(6), 80.0, "fast"),
    ]  # fmt: skip
    table = prediction.step_costs(runs).set_index("num_speculative_tokens")
    assert table["cost"].to_dict() == pytest.approx({1: 100 / 60, 6: 200 / 80}, rel=0.02)
    assert table["baseline_step_s"].to_dict() == pytest.approx({1: 1 / 100, 6: 1 / 200}, rel=0.02)
    alone = measured(factories.eagle3(3), 60.0, "alone")
    assert prediction.step_costs([*runs, alone])["num_speculative_tokens"].tolist() == [1, 6]
    assert prediction.step_costs([alone]).empty


def test_every_k_is_predicted_from_the_deepest_k(swept):
    table = prediction.every_k(swept)
    assert list(table["num_speculative_tokens"]) == [1, 2, 3, 4, 5, 6]
    measured = speedup.speedups(swept).set_index("num_speculative_tokens")["speedup"]
    predicted = table.set_index("num_speculative_tokens")["predicted"]
    for k in (1, 3, 6):
        assert predicted[k] == pytest.approx(measured[k], rel=0.2)  # prompts are read, too


def test_a_bound_is_length_over_price_and_most_of_it_arrives(swept):
    table = prediction.bounds(swept)
    assert list(table["num_speculative_tokens"]) == [1, 3, 6]
    assert list(table["bound"]) == pytest.approx(list(table["length"] / table["cost"]))
    assert all(0.8 < share < 1.1 for share in table["share"])


def test_steps_of_answers_add_up_to_the_engines_counters(project):
    """Long answers, short drafts, each step with one: an answer's end cuts its last step short."""
    good = (run for run in records.load() if run.status == "ok" and run.point.speculation is not None)
    long = (run for run in good if run.point.traffic.domain == "json")
    drafted = (run for run in long if run.point.speculation.method != "ngram")
    runs = [run for run in drafted if run.point.speculation.num_speculative_tokens <= 5][:12]
    requests = acceptance.by_request(runs)
    assert len(requests)
    for run in runs:
        rows = summaries.pooled_requests([run])
        steps, tokens = rows["itl_s"].map(len).sum(), (rows["output_tokens"] - 1).sum()
        assert tokens / steps == pytest.approx(acceptance.length(run.measurement.spec_decode), rel=0.03)
