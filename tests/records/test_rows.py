"""Rows of many runs in one small file: nothing lost but what is below a microsecond."""

import io

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from specbook import records
from specbook.records.packfile import CLOCKS, PRECISION_S, Rows, packed, same


def frame(n=3, seed=0, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = {
        "prompt_id": [f"p{i}" for i in range(n)], "start_s": rng.uniform(0, 5000, n),
        "ttft_s": rng.uniform(0, 1, n), "itl_s": [rng.uniform(0, 0.1, i) for i in range(n)],
        "e2e_s": rng.uniform(0, 9, n), "input_tokens": range(n), "output_tokens": range(1, n + 1),
        "text": [f"{i}, ü" for i in range(n)], "error": None,
    }  # fmt: skip
    return pd.DataFrame(made | columns)[list(records.REQUEST_COLUMNS)]


def test_rows_come_back_to_half_a_microsecond():
    runs = {"b": frame(3), "a": frame(5, seed=1), "c": frame(1, seed=2)}
    back = Rows(packed(runs))
    for run_id, want in runs.items():
        got = back.of(run_id)
        assert same(got, want)
        for name in ("start_s", "ttft_s", "e2e_s"):
            assert np.abs(got[name] - want[name]).max() <= PRECISION_S / 2 * (1 + 1e-6)
        for a, b in zip(got["itl_s"], want["itl_s"], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=PRECISION_S / 2 * (1 + 1e-6))


def test_whole_microseconds_come_back_exactly():
    first = Rows(packed({"a": frame(4)})).of("a")
    again = Rows(packed({"a": first})).of("a")
    for name in CLOCKS:
        assert [np.array(v).tolist() for v in first[name]] == [np.array(v).tolist() for v in again[name]]
    assert first["ttft_s"].tolist() == [round(value, 6) for value in first["ttft_s"]]


def test_a_failed_request_keeps_its_error_and_empty_clocks():
    want = frame(2, ttft_s=[np.nan, 0.5], itl_s=[[], [0.25]], error=["timed out", None], text=["", "ok"])
    got = Rows(packed({"a": frame(2), "b": want})).of("b")
    assert same(got, want)
    assert got["error"].isna().tolist() == [False, True]
    assert np.isnan(got["ttft_s"][0])


@pytest.mark.parametrize(
    "change",
    [
        {"text": ["0, ü", "1, u", "2, ü"]},
        {"output_tokens": [1, 2, 4]},
        {"start_s": [0.0, 1.0, 2.0]},
        {"itl_s": [[], [0.5], [0.1, 0.2]]},
        {"itl_s": [[0.1], [], [0.1, 0.2]]},
        {"error": ["x", None, None]},
    ],
    ids=str,
)
def test_same_sees_a_difference(change):
    assert same(frame(), frame())
    assert not same(frame(), frame(**change))
    assert not same(frame(), frame(2))


def test_each_distinct_answer_is_stored_once():
    answers = [np.random.default_rng(i).bytes(20_000).hex() for i in range(40)]  # more than 1 MB of them
    one = len(packed({"0": frame(40, text=answers)}))
    many = len(packed({f"{run}": frame(40, text=answers) for run in range(3)}))
    assert many < 1.1 * one


def test_a_clock_that_hardly_changes_costs_little():
    gaps = [np.random.default_rng(i).normal(0.02, 0.002, 100) for i in range(500)]
    assert len(packed({"a": frame(500, itl_s=gaps)})) < 2.2 * 50_000


def test_another_reader_can_use_the_file_alone():
    table = pq.read_table(io.BytesIO(packed({"a": frame(3), "b": frame(2)}))).to_pandas()
    assert table["run_id"].tolist() == ["a"] * 3 + ["b"] * 2
    assert {"start_us", "ttft_us", "itl_us", "e2e_us"} < set(table)
    assert table["e2e_us"].dtype == "int64"


def test_a_caller_cannot_change_what_the_next_one_gets():
    rows = Rows(packed({"a": frame(3)}))
    mine = rows.of("a")
    mine["text"] = "changed"
    assert rows.of("a")["text"].tolist() == frame(3)["text"].tolist()
