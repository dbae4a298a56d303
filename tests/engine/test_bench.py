"""Points measured on a real server: the books balance, and a death on the way is a record."""

import os
import signal
import threading
import time

import psutil
import pytest

from specbook import bench, records
from specbook.engine.vllm import VllmServer
from specbook.errors import ConfigError

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"request_rate_per_s": 8.0}])
def test_a_point_gives_a_record_whose_counters_agree(scratch, server, point, hardware, load):
    wanted = point(**load)
    record = bench.measure(server, wanted, hardware=hardware)
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
    first, second = (bench.measure(server, point(concurrency=1), hardware=hardware) for _ in range(2))
    assert first.status == second.status == "ok"
    assert first.run_id != second.run_id
    a, b = records.requests(first), records.requests(second)
    assert list(a.prompt_id) == list(b.prompt_id)
    assert list(a.input_tokens) == list(b.input_tokens)


def test_the_chat_template_is_applied_once(scratch, server, point, hardware):
    from transformers import AutoTokenizer

    from specbook import traffic

    wanted = point(concurrency=4)
    row = records.requests(bench.measure(server, wanted, hardware=hardware)).iloc[0]
    prompt = next(p for p in traffic.load_prompts(wanted.traffic.file()) if p.id == row.prompt_id)
    tokenizer = AutoTokenizer.from_pretrained(wanted.target.model)
    turn = [{"role": "user", "content": prompt.prompt}]
    assert row.input_tokens == len(
        tokenizer.apply_chat_template(turn, add_generation_prompt=True)["input_ids"]
    )


def test_requests_that_the_server_refuses_make_a_failed_record(scratch, server, point, hardware):
    record = bench.measure(server, point(concurrency=4, max_tokens=5000), hardware=hardware)
    assert record.status == "failed"
    assert "12 of 12 requests failed: Bad Request" in record.reason
    assert record.measurement is None


def test_a_server_of_another_configuration_is_refused(scratch, server, point, hardware):
    with pytest.raises(ConfigError, match="runs another configuration"):
        bench.measure(server, point(speculation=None, concurrency=1), hardware=hardware)


def test_an_engine_killed_on_the_way_makes_a_failed_record(scratch, target, point, hardware, tmp_path):
    with VllmServer(target, log_dir=tmp_path) as server:
        good = bench.measure(server, point(speculation=None, concurrency=2), hardware=hardware)
        records.append(good)
        long = point(speculation=None, concurrency=1, num_requests=300, max_tokens=200)
        engine = next(p for p in map(psutil.Process, server.pids()) if "EngineCore" in p.name())
        threading.Timer(4, os.kill, (engine.pid, signal.SIGKILL)).start()
        began = time.monotonic()
        record = bench.measure(server, long, hardware=hardware)
    assert record.status == "failed"
    assert "vLLM" in record.reason
    assert time.monotonic() - began < 60
    records.append(record)
    assert [r.status for r in records.load()] == ["ok", "failed"]


def test_a_server_that_never_started_is_a_failed_record(scratch, point, hardware):
    record = bench.failed(point(concurrency=1), "vLLM exited with code 2: no", hardware=hardware)
    assert records.read(records.append(record)).status == "failed"
