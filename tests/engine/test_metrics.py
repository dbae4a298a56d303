"""Counters read from a recorded `/metrics` of vLLM 0.32 (ngram, K=4), and their differences."""

from pathlib import Path

import pytest

from specbook.engine import metrics
from specbook.errors import EngineError

DATA = Path(__file__).parents[1] / "data"
BEFORE, AFTER = (metrics.snapshot((DATA / f"metrics-{name}.txt").read_text()) for name in ("before", "after"))


def test_counters_agree_with_each_other():
    server, drafted = metrics.delta(BEFORE, AFTER)
    assert server.requests_finished > 0
    assert server.prefix_cache_hits == 0
    assert len(drafted.num_accepted_tokens_per_pos) == 4
    assert sum(drafted.num_accepted_tokens_per_pos) == drafted.num_accepted_tokens
    assert drafted.num_drafts <= drafted.num_draft_tokens <= 4 * drafted.num_drafts
    assert list(drafted.num_accepted_tokens_per_pos) == sorted(
        drafted.num_accepted_tokens_per_pos, reverse=True
    )


def test_nothing_happened_between_equal_readings():
    server, drafted = metrics.delta(AFTER, AFTER)
    assert server.generation_tokens == server.queue_time_s == 0
    assert drafted.num_accepted_tokens_per_pos == (0, 0, 0, 0)


def test_a_server_that_does_not_draft_has_no_such_counters():
    text = "\n".join(
        line for line in (DATA / "metrics-after.txt").read_text().splitlines() if "spec_decode" not in line
    )
    plain = metrics.snapshot(text + "\n")
    assert metrics.delta(plain, plain)[1] is None


def test_engines_of_one_server_are_summed():
    text = (DATA / "metrics-after.txt").read_text()
    two = metrics.snapshot(text + text.replace('engine="0"', 'engine="1"'))
    server, _ = metrics.delta(AFTER, two)
    assert server.generation_tokens == AFTER.totals["vllm:generation_tokens_total"]


def test_a_restart_in_between_is_noticed():
    with pytest.raises(EngineError, match="server restarted"):
        metrics.delta(AFTER, BEFORE)


def test_a_counter_that_is_gone_is_named():
    with pytest.raises(EngineError, match="vllm:prompt_tokens_total"):
        metrics.snapshot("# TYPE up gauge\nup 1\n")
