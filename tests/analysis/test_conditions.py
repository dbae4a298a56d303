"""Under what conditions records were measured: full batches, answers that loop, and on how many hosts."""

import numpy as np
import pandas as pd
import pytest

from factories import eagle3, point, rows, write_run
from specbook import records
from specbook.analysis import latency, speedup, summaries
from specbook.bench import measure_point
from specbook.config.schema import Load, Traffic
from specbook.stats import windows

SLOTS, ANSWERS = 4, 40
LOOP = "again and again " * 20


@pytest.fixture(autouse=True)
def _results(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def loop(first_ttft_s=0.5):
    """A closed loop of SLOTS: the first wave waits longest for its first token, the drain is half empty."""
    found, free = [], np.zeros(SLOTS)
    for place in range(ANSWERS):
        slot, tokens = int(free.argmin()), 20 + 7 * (place % 5)
        ttft_s = first_ttft_s if place < SLOTS else 0.02
        gaps = [0.01] * (tokens - 1)
        found.append((f"p{place}", free[slot], ttft_s, gaps, ttft_s + sum(gaps), 5, tokens, "x", None))
        free[slot] += ttft_s + sum(gaps)
    return pd.DataFrame(found, columns=list(records.REQUEST_COLUMNS))


def closed(requests, new, slots=SLOTS, **fields):
    where = point(concurrency=slots, num_requests=len(requests))
    run = write_run(where, 50.0, requests=requests, run_id=f"run-{new}-{slots}", **fields)
    figures = measure_point.steady_figures(requests, run.point.load) if new else {}
    return run.model_copy(update={"measurement": run.measurement.model_copy(update=figures)})


def test_speeds_are_of_the_steady_window_where_there_is_one():
    requests = loop()
    (new,) = summaries.throughput([closed(requests, new=True)]).itertuples()
    within = windows.steady(requests, SLOTS)
    assert new.output_tokens_per_s == pytest.approx(windows.output_tokens_per_s(requests, within))
    assert new.decode_tokens_per_s == pytest.approx(windows.decode_tokens_per_s(requests, within))
    assert new.steady
    assert new.mean_concurrency == pytest.approx(SLOTS)


def test_older_records_keep_their_speeds_and_are_marked():
    (old,) = summaries.throughput([closed(loop(), new=False)]).itertuples()
    assert old.output_tokens_per_s == 50.0
    assert old.decode_tokens_per_s == pytest.approx(100.0)
    assert not old.steady
    assert 0.8 * SLOTS < old.mean_concurrency < 0.99 * SLOTS


@pytest.mark.parametrize("new", [False, True])
def test_one_slot_is_always_steady(new):
    assert summaries.throughput([closed(rows(6), new, slots=1)])["steady"].all()


def test_arrivals_have_no_steady_window():
    where = point().model_copy(update={"load": Load(request_rate_per_s=2, num_requests=4, num_warmups=0)})
    run = write_run(where, 10.0, requests=rows(4))
    assert summaries.throughput([run])["steady"].tolist() == [False]
    assert summaries.concurrency([run]).empty


def test_first_waves_ttft_is_left_out_of_percentiles():
    old, new = (latency.table([closed(loop(), new)]) for new in (False, True))
    worst = [
        found[(found["metric"] == "ttft_s") & (found["q"] == 0.99)]["value"].item() for found in (old, new)
    ]
    assert worst == pytest.approx([0.5, 0.02])
    inside = summaries.pooled_requests([closed(loop(), new=True)])
    assert not inside["inside"][:SLOTS].any()
    assert ANSWERS / 2 < inside["inside"].sum() < len(inside) == ANSWERS


def test_concurrency_says_what_was_asked_and_what_was_in_flight():
    found = summaries.concurrency([closed(loop(), new=False), closed(rows(6), False, slots=1)])
    assert found["asked"].tolist() == [SLOTS, 1]
    assert found["share"].tolist() == pytest.approx((found["mean"] / found["asked"]).tolist())
    assert found["steady"].tolist() == [False, True]
    assert found["share"][0] < 0.95
    assert summaries.concurrency([]).empty


def answers(loops, capped=()):
    requests = rows(4)
    requests["text"] = [LOOP if i in loops else f"answer {i}" for i in range(4)]
    requests.loc[list(loops), "ttft_s"] = 0.02
    for i in (*loops, *capped):
        requests.loc[i, "output_tokens"] = 128
    requests["itl_s"] = [
        [0.001 if i in loops else 0.01] * (n - 1) for i, n in enumerate(requests["output_tokens"])
    ]
    requests["e2e_s"] = requests["ttft_s"] + requests["itl_s"].map(sum)
    return requests


def test_loops_are_counted_by_load_and_domain():
    runs = [write_run(point(), 100.0, requests=answers({0}, capped={1}))]
    (found,) = summaries.loops(runs).itertuples()
    assert (found.load, found.domain, found.requests, found.prompts) == ("batch 1", "json", 4, 4)
    assert (found.capped, found.loops) == (0.5, 0.25)
    assert found.loop_tokens == pytest.approx(128 / (128 + 128 + 11 + 11))


def test_a_speed_without_loops_is_of_the_other_answers():
    assert Traffic(domain="json").max_tokens == 128
    (found,) = summaries.throughput([write_run(point(), 100.0, requests=answers({0, 1}))]).itertuples()
    assert found.decode_tokens_per_s_without_loops == pytest.approx(100.0)
    assert found.decode_tokens_per_s > 300


def test_a_cell_of_loops_alone_has_no_speed_without():
    (found,) = summaries.throughput([write_run(point(), 9.0, requests=answers({0, 1, 2, 3}))]).itertuples()
    assert np.isnan(found.decode_tokens_per_s_without_loops)


def test_a_speed_up_is_told_with_and_without_answers_that_loop():
    base = answers({0})  # the baseline takes as long for a token of the loop as for any other
    base["itl_s"] = [[0.01] * (n - 1) for n in base["output_tokens"]]
    base["e2e_s"] = base["ttft_s"] + base["itl_s"].map(sum)
    runs = [
        write_run(point(), 100.0, requests=base),
        write_run(point(eagle3()), 300.0, requests=answers({0})),
    ]
    (found,) = speedup.beside_loops(runs, speedup.speedups(runs)).itertuples()
    assert found.without.value == pytest.approx(1.0)
    assert found.every.value > 3
    assert found.loop_tokens == pytest.approx(128 / (128 + 3 * 11))
