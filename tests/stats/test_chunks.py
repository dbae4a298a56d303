"""A step's time from a stream's chunks: however the reader bunches them, the step is the same."""

import numpy as np
import pytest

from specbook.stats import stream_chunks

STEP_S = 0.004


def stream(steps: int, seed: int = 0) -> np.ndarray:
    return STEP_S * np.random.default_rng(seed).lognormal(0, 0.1, steps)


def bunched(gaps: np.ndarray, size: int) -> list[float]:
    """As read by somebody who looks up at every `size`-th chunk only."""
    arrived = np.concatenate([[0.0], gaps.cumsum()])
    read = [arrived[min(-(-i // size) * size, len(gaps))] + 2e-6 * (i % size) for i in range(len(arrived))]
    return list(np.diff(read))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_reader_who_comes_late_changes_no_step(size):
    streams = [bunched(stream(120, seed), size) for seed in range(20)]
    assert stream_chunks.step_s(streams) == pytest.approx(STEP_S, rel=0.03)
    if size > 1:  # what a median of gaps would say
        assert np.median(np.concatenate(streams)) != pytest.approx(STEP_S, rel=0.15)


def test_some_streams_read_late_and_some_in_time_have_one_step():
    mixed = [bunched(stream(120, seed), 1 + seed % 2) for seed in range(20)]
    assert stream_chunks.step_s(mixed) == pytest.approx(STEP_S, rel=0.03)


def test_steps_that_nobody_bunched_are_their_gaps():
    gaps = stream(50)
    assert stream_chunks.steps_s([list(gaps)]) == pytest.approx(gaps)


def test_a_long_wait_stays_one_long_step():
    gaps = [STEP_S] * 20 + [1.0] + [STEP_S] * 20
    assert stream_chunks.steps_s([gaps]) == pytest.approx(gaps)


def test_what_came_with_the_first_chunk_has_no_time_of_its_own():
    held = [3e-6] * 40
    assert stream_chunks.steps_s([held, [3e-6, STEP_S, STEP_S], *[[STEP_S] * 40] * 20]).min() == STEP_S
    assert len(stream_chunks.steps_s([held, *[[STEP_S] * 40] * 20])) == 20 * 40


@pytest.mark.parametrize("streams", [[], [[]], [[], []], [[3e-6] * 40] * 12])
def test_without_a_gap_there_is_no_step(streams):
    assert len(stream_chunks.steps_s(streams)) == 0
    assert np.isnan(stream_chunks.step_s(streams))
