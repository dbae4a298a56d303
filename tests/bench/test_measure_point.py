"""The books of a window balance, or say which two figures do not."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from specbook.bench import measure_point as books
from specbook.config.schema import Load, Point, Speculation, Target, Traffic
from specbook.errors import EngineError
from specbook.records.run import REQUEST_COLUMNS, ServerCounters, SpecDecodeCounters, Utilisation

POINT = Point(
    chapter="test",
    target=Target(name="tiny", model="org/tiny", max_model_len=512),
    speculation=Speculation(method="ngram", num_speculative_tokens=2),
    traffic=Traffic(domain="code"),
    load=Load(concurrency=1, num_requests=2, num_warmups=0),
    restart=0,
)


def window(drafted=True, **changes):
    result = {
        "duration": 2.0, "completed": 2, "failed": 0, "total_output_tokens": 6, "total_input_tokens": 9,
        "output_throughput": 3.0, "start_times": [100.5, 100.0], "ttfts": [0.1, 0.2], "latencies": [0.3, 0.4],
        "itls": [[0.00001, 0.1, 0.1], []], "input_lens": [4, 5], "output_lens": [5, 1],
        "generated_texts": ["one", "two"], "errors": ["", ""], "spec_decode_num_drafts": 2,
        "spec_decode_draft_tokens": 4, "spec_decode_accepted_tokens": 2,
    }  # fmt: skip
    server = ServerCounters(
        prompt_tokens=9, generation_tokens=6, requests_finished=2, prefix_cache_hits=0, preemptions=0,
        queue_time_s=0.0,
    )  # fmt: skip
    spec_decode = SpecDecodeCounters(
        num_drafts=2, num_draft_tokens=4, num_accepted_tokens=2, num_accepted_tokens_per_pos=(2, 0)
    )
    busy = Utilisation(
        samples=1, engine_cpu_cores=1, client_cpu_cores=0, engine_rss_bytes=1, gpu_utilisation=None,
        gpu_memory_bytes=None,
    )  # fmt: skip
    return books.Window(result | changes, server, spec_decode if drafted else None, busy)


def test_equal_figures_balance():
    assert books.disagreement(window(), POINT) is None
    assert books.disagreement(window(drafted=False), POINT) is None


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("completed", "requests: the server's say 2, the load generator says 99"),
        ("total_output_tokens", "output tokens: the server's say 6, the load generator says 99"),
        ("total_input_tokens", "prompt tokens: the server's say 9"),
        ("spec_decode_num_drafts", "drafts: the server's say 2"),
        ("spec_decode_draft_tokens", "draft tokens: the server's say 4"),
        ("spec_decode_accepted_tokens", "accepted tokens: the server's say 2"),
    ],
)
def test_a_difference_names_both_figures(figure, words):
    assert words in books.disagreement(window(**{figure: 99}), POINT)


def test_an_engine_that_counts_no_requests_balances():
    seen = window()
    uncounted = replace(seen, server=seen.server.model_copy(update={"requests_finished": None}))
    assert books.disagreement(uncounted, POINT) is None
    longer = POINT.model_copy(update={"load": Load(concurrency=1, num_requests=3, num_warmups=0)})
    assert "planned requests" in books.disagreement(uncounted, longer)


def test_a_window_shorter_than_planned_is_noticed():
    longer = POINT.model_copy(update={"load": Load(concurrency=1, num_requests=3, num_warmups=0)})
    assert "planned requests: the server's say 2" in books.disagreement(window(), longer)


def test_failed_requests_give_the_first_error():
    result = window(failed=1, errors=["", "Traceback ...\nConnectionError: gone\n"]).result
    with pytest.raises(EngineError, match="1 of 2 requests failed: ConnectionError: gone"):
        books.raise_if_requests_failed(result)
    books.raise_if_requests_failed(window().result)


def test_rows_drop_the_role_chunk():
    rows = books.rows(window().result, ["a", "b"])
    assert tuple(rows.columns) == REQUEST_COLUMNS
    assert list(rows.start_s) == [0.5, 0.0]
    assert list(rows.itl_s) == [[0.1, 0.1], []]
    assert list(rows.prompt_id) == ["a", "b"]
    assert list(rows.output_tokens) == [5, 1]
    assert rows.error.isna().all()


def test_throughput_is_the_load_generators():
    found = books.throughput(window().result)
    assert (found.duration_s, found.completed, found.output_tokens, found.output_tokens_per_s) == (2, 2, 6, 3)


def loop(n, slots, e2e_s=1.0, idle_s=0.0):
    """Rows of a closed loop whose answers take `e2e_s`, each slot resting `idle_s` between two."""
    start_s = [place // slots * (e2e_s + idle_s) + place % slots * 0.01 for place in range(n)]
    rows = [("p", start, 0.1, [0.1] * 9, e2e_s, 4, 10, "x", None) for start in start_s]
    return pd.DataFrame(rows, columns=list(REQUEST_COLUMNS))


def test_a_full_window_has_its_figures():
    load = Load(concurrency=2, num_requests=16, num_warmups=0)
    found = books.steady_figures(loop(16, 2), load)
    assert found["steady_s"] == pytest.approx(6.0)
    assert found["mean_concurrency"] == pytest.approx(2.0, rel=0.01)
    assert found["steady_output_tokens_per_s"] == pytest.approx(20.0, rel=0.05)
    assert books.not_full(loop(16, 2), load) is None


def test_slots_that_rest_are_no_full_window():
    load = Load(concurrency=2, num_requests=16, num_warmups=0)
    said = books.not_full(loop(16, 2, idle_s=0.2), load)
    assert re.match(r"1\.\d of 2 requests were in flight .* no batch of 2\. To fix: leave", said)
    said = books.not_full(loop(2, 2), load)
    assert "outlasted all other requests" in said
    assert said.endswith("raise num_requests to 32")


@pytest.mark.parametrize(
    "how", [{"concurrency": 2, "num_requests": 15}, {"request_rate_per_s": 2.0, "num_requests": 99}]
)
def test_too_few_requests_and_arrivals_have_none(how):
    load = Load(num_warmups=0, **how)
    assert books.steady_figures(loop(15, 2), load) == {}
    assert books.not_full(loop(15, 2, idle_s=1.0), load) is None


def test_one_slot_may_rest():
    load = Load(concurrency=1, num_requests=4, num_warmups=0)
    assert books.not_full(loop(4, 1, idle_s=1.0), load) is None
    assert books.steady_figures(loop(4, 1, idle_s=1.0), load)["steady_s"] == pytest.approx(7.0)
