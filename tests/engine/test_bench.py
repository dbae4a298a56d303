"""Points measured on a real server: the books balance, and a stall on the way fails its record."""

import json
import threading
import time

import pytest
from processes import core

from specbook import records
from specbook.bench import measure_point, stall
from specbook.config.schema import Traffic
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import ConfigError

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"request_rate_per_s": 8.0}])
def test_a_point_gives_a_record_whose_counters_agree(scratch, server, point, hardware, load):
    wanted = point(**load)
    record = measure_point.measure(server, wanted, hardware=hardware)
    assert record.reason is None
    path = records.append(record)
    got, rows = record.measurement, records.requests(records.read(path))
    assert got.server.requests_finished == got.throughput.completed == len(rows) == 12
    assert got.server.generation_tokens == rows.output_tokens.sum() == got.throughput.output_tokens
    assert got.server.prefix_cache_hits == 0
    assert got.spec_decode.num_draft_tokens >= got.spec_decode.num_accepted_tokens
    assert sum(got.spec_decode.num_accepted_tokens_per_pos) == got.spec_decode.num_accepted_tokens
    assert rows.start_s.min() == 0
    assert rows.output_tokens.max() <= wanted.traffic.max_tokens
    assert got.utilisation.engine_cpu_cores > 0
    assert "session-secret" not in record.model_dump_json()
    assert list(records.validate_all()) == [(path, None)]


def test_same_prompts_in_the_same_order_each_time(scratch, server, point, hardware):
    few = point(concurrency=1, num_requests=4)
    first, second = (measure_point.measure(server, few, hardware=hardware) for _ in range(2))
    assert (first.reason, second.reason) == (None, None)
    assert first.run_id != second.run_id
    a, b = records.requests(first), records.requests(second)
    assert list(a.prompt_id) == list(b.prompt_id)
    assert list(a.input_tokens) == list(b.input_tokens)


def test_the_chat_template_is_applied_once(scratch, server, point, hardware):
    from transformers import AutoTokenizer

    from specbook.config import prompt_files

    wanted = point(concurrency=1, num_requests=2)
    record = measure_point.measure(server, wanted, hardware=hardware)
    assert record.reason is None
    row = records.requests(record).iloc[0]
    prompt = next(p for p in prompt_files.for_traffic(wanted.traffic) if p.id == row.prompt_id)
    tokenizer = AutoTokenizer.from_pretrained(wanted.target.model)
    turn = [{"role": "user", "content": prompt.prompt}]
    assert row.input_tokens == len(
        tokenizer.apply_chat_template(turn, add_generation_prompt=True)["input_ids"]
    )


def test_a_conversation_is_sent_with_all_its_turns(scratch, server, point, hardware):
    from transformers import AutoTokenizer

    turns = [{"role": "user", "content": "x = 1"}, {"role": "assistant", "content": "Yes."}]
    asked = [[*turns, {"role": "user", "content": f"y = {i}"}] for i in range(2)]
    file = scratch / "chats.jsonl"
    file.write_text("".join(json.dumps({"messages": one}) + "\n" for one in asked))
    traffic = Traffic(domain="chats", prompts=str(file), max_tokens=8)
    wanted = point(concurrency=2, num_requests=2).model_copy(update={"traffic": traffic})
    got = records.requests(measure_point.measure(server, wanted, hardware=hardware))
    tokenizer = AutoTokenizer.from_pretrained(wanted.target.model)
    sent = [tokenizer.apply_chat_template(one, add_generation_prompt=True)["input_ids"] for one in asked]
    assert sorted(got.input_tokens) == sorted(map(len, sent))


def test_refused_requests_make_a_failed_record(scratch, server, point, hardware):
    record = measure_point.measure(server, point(concurrency=4, max_tokens=5000), hardware=hardware)
    assert record.status == "failed"
    assert "12 of 12 requests failed: Bad Request" in record.reason
    assert record.measurement is None


def test_a_server_of_another_configuration_is_refused(scratch, server, point, hardware):
    with pytest.raises(ConfigError, match="runs another configuration"):
        measure_point.measure(server, point(speculation=None, concurrency=1), hardware=hardware)


def test_an_engine_that_hangs_is_noticed_and_ended(scratch, echo, point, hardware, tmp_path, monkeypatch):
    for name, seconds in {"SILENCE_S": 3.0, "PERIOD_S": 0.5}.items():
        monkeypatch.setattr(stall, name, seconds)
    silent = echo.model_copy(update={"extra_args": ("silently",)})
    wanted = point(speculation=None, concurrency=2).model_copy(update={"target": silent})
    with Server(silent, log_dir=tmp_path) as server:
        server.start_s = 0.0
        record = measure_point.measure(server, wanted, hardware=hardware)
        assert not server.is_alive()
    assert record.status == "failed"
    assert "the engine made no progress for" in record.reason


def test_an_engine_that_stalls_and_goes_on_fails_the_point(scratch, server, point, hardware, monkeypatch):
    monkeypatch.setattr(stall, "STALL_S", 1.0)
    stopped, before = core(server), server.counters()

    def stop_for_a_while():
        counters.settled(server.counters, before, finished=2 + 3)  # the warm-ups, and the first few
        stopped.suspend()
        time.sleep(4)
        stopped.resume()

    monkeypatch.setattr(counters, "SETTLE_S", 120.0)
    thread = threading.Thread(target=stop_for_a_while)
    thread.start()
    record = measure_point.measure(
        server, point(concurrency=2, num_requests=12, max_tokens=60), hardware=hardware
    )
    thread.join()
    assert record.status == "failed"
    assert "stalled: 2 requests waited" in record.reason
    again = point(concurrency=2, num_requests=4)
    assert measure_point.measure(server, again, hardware=hardware).reason is None


def test_a_server_that_never_started_is_a_failed_record(scratch, point, hardware):
    record = measure_point.failed(point(concurrency=1), "vLLM exited with code 2: no", hardware=hardware)
    assert records.read(records.append(record)).status == "failed"
