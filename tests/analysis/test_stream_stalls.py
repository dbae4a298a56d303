"""What late first chunks do to a tail, and whether the engine was slow where they came."""

import numpy as np
import pandas as pd
import pytest

import factories
from specbook.analysis import latency, summaries
from specbook.stats import percentiles

N = 500
"""Distinct prompts: enough for a p99."""


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    monkeypatch.setattr(percentiles, "RESAMPLES", 99)  # how wide an interval is does not matter here


def stood_still(rows: pd.DataFrame, count: int, slower: float = 1.0) -> pd.DataFrame:
    """The first `count` answers come whole, `slower` times as late as they would have come anyway."""
    some = rows.index < count
    gaps = [[3e-6] * len(g) if held else g for g, held in zip(rows["itl_s"], some, strict=True)]
    e2e_s = rows["e2e_s"].where(~some, slower * rows["e2e_s"])
    return rows.assign(itl_s=gaps, e2e_s=e2e_s, ttft_s=rows["ttft_s"].where(~some, e2e_s - 1e-4))


def runs(count: int, slower: float = 1.0):
    found = []
    for restart in range(3):
        base, arm = (
            factories.point(draft, num_requests=N, restart=restart) for draft in (None, factories.eagle3())
        )
        rows = stood_still(factories.rows(N, seed=restart), count, slower)
        found += [factories.write_run(base, 100.0, requests=rows), factories.write_run(arm, 150.0)]
    return found


def p99(table: pd.DataFrame, metric: str) -> pd.Series:
    return table[(table["metric"] == metric) & (table["q"] == 0.99)].iloc[0]


def test_a_p99_that_late_first_chunks_decide_is_not_told():
    found = runs(10)
    assert not p99(latency.table(found), "ttft_s")["enough"]
    tails = latency.tails(found)
    row = p99(tails, "ttft_s")
    assert row["value"] < 0  # it would look like a gain
    assert (row["enough"], pd.isna(row["low"]), row["late"]) == (False, True, 30)
    assert p99(tails, "e2e_s")["enough"]


def test_one_late_first_chunk_decides_nothing():
    tails = latency.tails(runs(1))
    assert p99(tails, "ttft_s")["enough"]


@pytest.mark.parametrize("slower", [1, 4])
def test_their_pace_says_whether_the_engine_was_slow(slower):
    found = latency.late_pace(summaries.pooled_requests(runs(10, slower)))
    assert found == pytest.approx(slower, rel=0.05)


def test_where_none_is_late_there_is_no_pace():
    assert np.isnan(latency.late_pace(summaries.pooled_requests(runs(0))))
