"""The steady window of loops whose truth is known, and loops that have none."""

import numpy as np
import pandas as pd
import pytest

from specbook.stats import steady
from specbook.stats.steady import Span

STEP_S = 0.01
TTFT_S = 0.05


def loop(lengths, concurrency, tokens_a_step=1):
    """Rows of a perfect closed loop: answers of so many tokens, a chunk every STEP_S after the first."""
    free, rows = np.zeros(concurrency), []
    for tokens in lengths:
        slot = int(free.argmin())
        gaps = [STEP_S] * ((tokens - 1) // tokens_a_step)
        e2e_s = TTFT_S + sum(gaps)
        rows.append((free[slot], TTFT_S, np.array(gaps), e2e_s, tokens))
        free[slot] += e2e_s
    return pd.DataFrame(rows, columns=["start_s", "ttft_s", "itl_s", "e2e_s", "output_tokens"])


def lengths(n, seed=0):
    return np.random.default_rng(seed).integers(20, 200, n).tolist()


def test_every_slot_is_taken_in_a_perfect_loop():
    rows = loop(lengths(256), 32)
    found = steady.span(rows, 32)
    assert steady.mean_concurrency(rows, found) == pytest.approx(32)
    assert steady.mean_concurrency(rows, steady.whole(rows)) < 32


def test_two_waves_have_no_full_batch():
    rows = loop(lengths(64), 32)
    assert steady.mean_concurrency(rows, steady.whole(rows)) < 0.9 * 32
    assert steady.span(rows, 32) is None


@pytest.mark.parametrize("n", [1, 31, 32])
def test_fewer_requests_than_fill_it_have_no_span(n):
    assert steady.span(loop(lengths(n), 32), 32) is None


def test_a_first_wave_that_outlasts_the_others_leaves_no_span():
    assert steady.span(loop([2000, *[20] * 10], 2), 2) is None


def test_the_span_lies_between_first_wave_and_last_start():
    rows = loop([10, 20, *lengths(30)], 2)
    found = steady.span(rows.sample(frac=1, random_state=1), 2)  # whatever their order
    assert found == (rows["e2e_s"][:2].max(), rows["start_s"].max())
    assert steady.arrived(rows, found).tolist() == (rows["start_s"] >= found.start_s).tolist()
    assert not steady.arrived(rows, found)[:2].any()


def test_one_slot_is_steady_from_end_to_end():
    rows = loop(lengths(12), 1)
    found = steady.span(rows, 1)
    assert found == steady.whole(rows) == (0, pytest.approx(rows["e2e_s"].sum()))
    assert steady.arrived(rows, found).all()
    assert steady.mean_concurrency(rows, found) == pytest.approx(1)


@pytest.mark.parametrize("tokens_a_step", [1, 3])
def test_over_the_whole_window_every_token_counts(tokens_a_step):
    rows = loop([1, *lengths(40)], 4, tokens_a_step)
    every = steady.whole(rows)
    tokens = rows["output_tokens"]
    assert steady.output_tokens_per_s(rows, every) == pytest.approx(tokens.sum() / every.seconds)
    decoding_s = (rows["e2e_s"] - rows["ttft_s"]).sum()
    assert steady.decode_tokens_per_s(rows, every) == pytest.approx((tokens - 1).sum() / decoding_s)


@pytest.mark.parametrize("tokens_a_step", [1, 4])
def test_a_full_batch_has_its_own_speed(tokens_a_step):
    rows = loop([4 * n + 1 for n in lengths(400)], 8, tokens_a_step)
    found = steady.span(rows, 8)
    assert steady.decode_tokens_per_s(rows, found) == pytest.approx(tokens_a_step / STEP_S, rel=0.01)
    mean_s, mean = rows["e2e_s"].mean(), rows["output_tokens"].mean()
    assert steady.output_tokens_per_s(rows, found) == pytest.approx(8 * mean / mean_s, rel=0.02)


def test_tokens_outside_the_span_do_not_count():
    rows = loop([101], 1)
    assert steady.output_tokens_per_s(rows, Span(0.0, TTFT_S)) == pytest.approx(1 / TTFT_S)
    assert steady.output_tokens_per_s(rows, Span(TTFT_S + 50.5 * STEP_S, 2.0)) * (
        2.0 - TTFT_S - 50.5 * STEP_S
    ) == pytest.approx(50)
    assert steady.mean_concurrency(rows, Span(0.0, 2 * rows["e2e_s"][0])) == pytest.approx(0.5)


def test_an_answer_that_came_as_one_counts_where_it_came():
    rows = loop([1], 1).assign(output_tokens=40)
    assert steady.output_tokens_per_s(rows, steady.whole(rows)) == pytest.approx(40 / TTFT_S)
    assert np.isnan(steady.decode_tokens_per_s(rows, steady.whole(rows)))
