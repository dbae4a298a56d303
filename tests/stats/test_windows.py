"""Windows: steady time of loops whose truth is known, steps of bunched chunks, answers that loop."""

import json

import numpy as np
import pandas as pd
import pytest

from specbook.stats import windows
from specbook.stats.windows import Span

STEP_S = 0.01
TTFT_S = 0.05
GAP_S = 0.004
LOOPS = [  # ends of shipped answers
    "        ld_header = line.replace('\\\\')\n" * 9 + "        ld_header =",
    'the "case" block is in ' * 12 + "the",
    "A list. Arguments: " + "- " * 120,
    "data[i + 1" + ":" * 130,
    "self.push(" * 30 + "self.",
]
NO_LOOPS = [
    "",
    "x",
    json.dumps([0] * 60),
    json.dumps([{"id": i, "name": "a"} for i in range(20)]),
    "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5,
    "-" * 79,
    "def f():\n" + "    items.append(1)\n" * 5,
    "for x in y:\n    pass\n" * 9 + "done\n",
    "".join(f"{i}. step {i}\n" for i in range(60)),
    " ".join(f"word{i * i % 97}" for i in range(200)),
]


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
    found = windows.steady(rows, 32)
    assert windows.mean_concurrency(rows, found) == pytest.approx(32)
    assert windows.mean_concurrency(rows, windows.whole(rows)) < 32


def test_two_waves_have_no_full_batch():
    rows = loop(lengths(64), 32)
    assert windows.mean_concurrency(rows, windows.whole(rows)) < 0.9 * 32
    assert windows.steady(rows, 32) is None


@pytest.mark.parametrize("n", [1, 31, 32])
def test_fewer_requests_than_fill_it_have_no_span(n):
    assert windows.steady(loop(lengths(n), 32), 32) is None


def test_a_first_wave_that_outlasts_the_others_leaves_no_span():
    assert windows.steady(loop([2000, *[20] * 10], 2), 2) is None


def test_the_span_lies_between_first_wave_and_last_start():
    rows = loop([10, 20, *lengths(30)], 2)
    found = windows.steady(rows.sample(frac=1, random_state=1), 2)  # whatever their order
    assert found == (rows["e2e_s"][:2].max(), rows["start_s"].max())
    assert windows.arrived(rows, found).tolist() == (rows["start_s"] >= found.start_s).tolist()
    assert not windows.arrived(rows, found)[:2].any()


def test_one_slot_is_steady_from_end_to_end():
    rows = loop(lengths(12), 1)
    found = windows.steady(rows, 1)
    assert found == windows.whole(rows) == (0, pytest.approx(rows["e2e_s"].sum()))
    assert windows.arrived(rows, found).all()
    assert windows.mean_concurrency(rows, found) == pytest.approx(1)


@pytest.mark.parametrize("tokens_a_step", [1, 3])
def test_over_the_whole_window_every_token_counts(tokens_a_step):
    rows = loop([1, *lengths(40)], 4, tokens_a_step)
    every = windows.whole(rows)
    tokens = rows["output_tokens"]
    assert windows.output_tokens_per_s(rows, every) == pytest.approx(tokens.sum() / every.seconds)
    decoding_s = (rows["e2e_s"] - rows["ttft_s"]).sum()
    assert windows.decode_tokens_per_s(rows, every) == pytest.approx((tokens - 1).sum() / decoding_s)


@pytest.mark.parametrize("tokens_a_step", [1, 4])
def test_a_full_batch_has_its_own_speed(tokens_a_step):
    rows = loop([4 * n + 1 for n in lengths(400)], 8, tokens_a_step)
    found = windows.steady(rows, 8)
    assert windows.decode_tokens_per_s(rows, found) == pytest.approx(tokens_a_step / STEP_S, rel=0.01)
    mean_s, mean = rows["e2e_s"].mean(), rows["output_tokens"].mean()
    assert windows.output_tokens_per_s(rows, found) == pytest.approx(8 * mean / mean_s, rel=0.02)


def test_tokens_outside_the_span_do_not_count():
    rows = loop([101], 1)
    assert windows.output_tokens_per_s(rows, Span(0.0, TTFT_S)) == pytest.approx(1 / TTFT_S)
    assert windows.output_tokens_per_s(rows, Span(TTFT_S + 50.5 * STEP_S, 2.0)) * (
        2.0 - TTFT_S - 50.5 * STEP_S
    ) == pytest.approx(50)
    assert windows.mean_concurrency(rows, Span(0.0, 2 * rows["e2e_s"][0])) == pytest.approx(0.5)


def test_an_answer_that_came_as_one_counts_where_it_came():
    rows = loop([1], 1).assign(output_tokens=40)
    assert windows.output_tokens_per_s(rows, windows.whole(rows)) == pytest.approx(40 / TTFT_S)
    assert np.isnan(windows.decode_tokens_per_s(rows, windows.whole(rows)))


def stream(steps: int, seed: int = 0) -> np.ndarray:
    return GAP_S * np.random.default_rng(seed).lognormal(0, 0.1, steps)


def bunched(gaps: np.ndarray, size: int) -> list[float]:
    """As read by somebody who looks up at every `size`-th chunk only."""
    arrived = np.concatenate([[0.0], gaps.cumsum()])
    read = [arrived[min(-(-i // size) * size, len(gaps))] + 2e-6 * (i % size) for i in range(len(arrived))]
    return list(np.diff(read))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_reader_who_comes_late_changes_no_step(size):
    streams = [bunched(stream(120, seed), size) for seed in range(20)]
    assert windows.step_s(streams) == pytest.approx(GAP_S, rel=0.03)
    if size > 1:  # what a median of gaps would say
        assert np.median(np.concatenate(streams)) != pytest.approx(GAP_S, rel=0.15)


def test_some_streams_read_late_and_some_in_time_have_one_step():
    mixed = [bunched(stream(120, seed), 1 + seed % 2) for seed in range(20)]
    assert windows.step_s(mixed) == pytest.approx(GAP_S, rel=0.03)


def test_steps_that_nobody_bunched_are_their_gaps():
    gaps = stream(50)
    assert windows.steps_s([list(gaps)]) == pytest.approx(gaps)


def test_a_long_wait_stays_one_long_step():
    gaps = [GAP_S] * 20 + [1.0] + [GAP_S] * 20
    assert windows.steps_s([gaps]) == pytest.approx(gaps)


def test_what_came_with_the_first_chunk_has_no_time_of_its_own():
    held = [3e-6] * 40
    assert windows.steps_s([held, [3e-6, GAP_S, GAP_S], *[[GAP_S] * 40] * 20]).min() == GAP_S
    assert len(windows.steps_s([held, *[[GAP_S] * 40] * 20])) == 20 * 40


@pytest.mark.parametrize("streams", [[], [[]], [[], []], [[3e-6] * 40] * 12])
def test_without_a_gap_there_is_no_step(streams):
    assert len(windows.steps_s(streams)) == 0
    assert np.isnan(windows.step_s(streams))


@pytest.mark.parametrize("text", LOOPS)
def test_a_unit_repeated_to_the_end_is_a_loop(text):
    assert windows.repeats(text)
    assert windows.repeats("Before it comes something else. " + text)


@pytest.mark.parametrize("text", NO_LOOPS)
def test_rows_alike_and_counting_are_no_loop(text):
    assert not windows.repeats(text)


def test_both_thresholds_count():
    unit = "0123456789abcdefghij"
    assert windows.repeats(unit * windows.REPETITIONS)
    assert not windows.repeats(unit * (windows.REPETITIONS - 1))
    assert windows.repeats("ab" * (windows.LOOP_CHARACTERS // 2))
    assert not windows.repeats("ab" * (windows.LOOP_CHARACTERS // 2 - 1))
