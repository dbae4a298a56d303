"""Counters read from a recorded `/metrics` of vLLM 0.32 (ngram, K=4), and their differences."""

from pathlib import Path

import pytest

from specbook.engine import counters
from specbook.engine.vllm.telemetry import last_words, read
from specbook.errors import EngineError

DATA = Path(__file__).parents[1] / "data"
BEFORE, AFTER = (read((DATA / f"metrics-{name}.txt").read_text()) for name in ("before", "after"))


def test_counters_agree_with_each_other():
    found = counters.delta(BEFORE, AFTER)
    server, drafted = found.server, found.spec_decode
    assert server.requests_finished > 0
    assert server.prefix_cache_hits == 0
    assert len(drafted.num_accepted_tokens_per_pos) == 4
    assert sum(drafted.num_accepted_tokens_per_pos) == drafted.num_accepted_tokens
    assert drafted.num_drafts <= drafted.num_draft_tokens <= 4 * drafted.num_drafts
    assert list(drafted.num_accepted_tokens_per_pos) == sorted(
        drafted.num_accepted_tokens_per_pos, reverse=True
    )


def test_nothing_happened_between_equal_readings():
    found = counters.delta(AFTER, AFTER)
    server, drafted = found.server, found.spec_decode
    assert server.generation_tokens == server.queue_time_s == 0
    assert drafted.num_accepted_tokens_per_pos == (0, 0, 0, 0)


def test_a_server_that_does_not_draft_has_no_such_counters():
    text = "\n".join(
        line for line in (DATA / "metrics-after.txt").read_text().splitlines() if "spec_decode" not in line
    )
    plain = read(text + "\n")
    assert counters.delta(plain, plain).spec_decode is None


def test_a_request_that_is_counted_late_is_waited_for():
    readings = iter([BEFORE, BEFORE, AFTER])
    finished = AFTER.server.requests_finished - BEFORE.server.requests_finished
    assert counters.settled(lambda: next(readings), BEFORE, finished) == AFTER


def test_a_restart_in_between_is_noticed():
    with pytest.raises(EngineError, match="server restarted"):
        counters.delta(AFTER, BEFORE)


def test_a_counter_that_is_gone_is_named():
    with pytest.raises(EngineError, match="vllm:prompt_tokens_total"):
        read("# TYPE up gauge\nup 1\n")


def test_a_flag_that_is_refused_is_its_last_words(tmp_path):
    refused = "api_server.py: error: unrecognized arguments: --no-such-flag 1"
    log = tmp_path / "x.log"
    log.write_text(f"usage: api_server.py [-h] [--port PORT]\n                     [--more]\n{refused}\n")
    assert last_words(log) == refused
