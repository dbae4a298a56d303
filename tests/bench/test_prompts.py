"""Prompts: one seeded order, and a file that maps back to prompt ids."""

import json

import pytest

from specbook.bench import prompt_order as traffic
from specbook.config import prompt_files as files
from specbook.config.schema import Traffic


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"p{i}", "prompt": f"say {i}", "answer": i}) + "\n" for i in range(5))
    )
    return path


def test_the_seed_alone_sets_the_order(prompts):
    found = files.load(prompts)
    assert traffic.select(found, 5, 1) == traffic.select(found, 5, 1)
    assert traffic.select(found, 5, 1) != traffic.select(found, 5, 2)
    assert {p.id for p in traffic.select(found, 5, 1)} == {p.id for p in found}


def test_more_requests_than_prompts_start_again_from_the_first(prompts):
    twelve = traffic.select(files.load(prompts), 12, 0)
    assert twelve[5:10] == twelve[:5]
    assert twelve[10:] == twelve[:2]


def test_measured_prompts_do_not_depend_on_the_warm_up(prompts):
    wanted = Traffic(domain="code", prompts=str(prompts))
    few, none = (traffic.measured_and_warmup(wanted, 3, n) for n in (2, 0))
    assert few[0] == none[0]
    assert (len(few[1]), none[1]) == (2, [])


def test_the_bench_file_keeps_order_and_caps_the_output(tmp_path, prompts):
    chosen = traffic.select(files.load(prompts), 3, 0)
    path = traffic.write_bench_file(tmp_path / "new" / "bench.jsonl", chosen, 64)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"prompt": p.prompt, "output_tokens": 64} for p in chosen]


def test_the_bench_file_keeps_a_conversations_turns(tmp_path):
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    chat = files.Prompt(id="a", prompt="Why?", messages=turns)
    path = traffic.write_bench_file(tmp_path / "bench.jsonl", [chat], 64)
    assert json.loads(path.read_text()) == {"prompt": "Why?", "output_tokens": 64, "chat_messages": turns}
