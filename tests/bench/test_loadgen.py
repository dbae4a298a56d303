"""Prompts in one seeded order, and what the load generator is asked to do; tests/engine lets it do that."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from factories import eagle3, point
from specbook.bench import loadgen
from specbook.config import prompt_files
from specbook.config.schema import Load, Traffic
from specbook.engine import load_tool
from specbook.engine.vllm import load_worker

CLOSED, POISSON = {"concurrency": 8}, {"request_rate_per_s": 4.0}


def asked(point):
    return load_tool().arguments(point, "http://127.0.0.1:1", Path("prompts.jsonl"), 4, Path("result.json"))


def seed(load, speculation=None, restart=0):
    chosen = Load(**load, num_requests=4, num_warmups=0)
    argv = asked(point(speculation, restart=restart).model_copy(update={"load": chosen}))
    return int(argv[argv.index("--seed") + 1])


@pytest.mark.parametrize(("engine", "anew"), [("vllm", False), ("llama_cpp", True)])
def test_another_engine_gets_a_new_connection_for_each_request(engine, anew):
    one = point()
    other = one.model_copy(update={"target": one.target.model_copy(update={"engine": engine})})
    assert ("Connection=close" in asked(other)) is anew


@pytest.mark.parametrize(("load", "draws"), [(CLOSED, 1), (POISSON, 5)])
def test_each_restart_draws_its_own_poisson_arrivals(load, draws):
    assert len({seed(load, restart=i) for i in range(5)}) == draws


def test_a_job_that_fails_leaves_its_traceback_in_the_log(capsys):
    def failing(arguments):
        raise ValueError(f"no such {arguments}")

    parser = SimpleNamespace(parse_args=" ".join)
    job = {"argv": ["a", "b"], "api_key": None}
    assert load_worker._run(failing, parser, job) == "ValueError: no such a b"
    assert "in failing" in capsys.readouterr().err


def test_all_arms_of_a_restart_see_the_same_arrivals():
    assert seed(POISSON, eagle3(), restart=3) == seed(POISSON, None, restart=3)


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"p{i}", "prompt": f"say {i}", "answer": i}) + "\n" for i in range(5))
    )
    return path


def test_the_seed_alone_sets_the_order(prompts):
    found = prompt_files.load(prompts)
    assert loadgen.select_prompts(found, 5, 1) == loadgen.select_prompts(found, 5, 1)
    assert loadgen.select_prompts(found, 5, 1) != loadgen.select_prompts(found, 5, 2)
    assert {p.id for p in loadgen.select_prompts(found, 5, 1)} == {p.id for p in found}


def test_more_requests_than_prompts_start_again_from_the_first(prompts):
    twelve = loadgen.select_prompts(prompt_files.load(prompts), 12, 0)
    assert twelve[5:10] == twelve[:5]
    assert twelve[10:] == twelve[:2]


def test_measured_prompts_do_not_depend_on_the_warm_up(prompts):
    wanted = Traffic(domain="code", prompts=str(prompts))
    few, none = (loadgen.measured_and_warmup(wanted, 3, n) for n in (2, 0))
    assert few[0] == none[0]
    assert (len(few[1]), none[1]) == (2, [])


def test_the_dataset_keeps_order_and_caps_the_output(tmp_path, prompts):
    chosen = loadgen.select_prompts(prompt_files.load(prompts), 3, 0)
    path = loadgen.write_dataset(tmp_path / "new" / "bench.jsonl", chosen, 64)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"prompt": p.prompt, "output_tokens": 64} for p in chosen]


def test_the_dataset_keeps_a_conversations_turns(tmp_path):
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    chat = prompt_files.Prompt(id="a", prompt="Why?", messages=turns)
    path = loadgen.write_dataset(tmp_path / "bench.jsonl", [chat], 64)
    assert json.loads(path.read_text()) == {"prompt": "Why?", "output_tokens": 64, "chat_messages": turns}


def test_scratch_of_dead_processes_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {f"{dead.pid}-abc": False, "tmp1234": False, f"{os.getpid()}-abc": True}
    for name in names:
        (tmp_path / "build" / "bench" / name).mkdir(parents=True)
        (tmp_path / "build" / "bench" / name / "window.jsonl").touch()
    with loadgen.scratch() as own:
        folder = own.parent
        assert own.name.startswith(f"{os.getpid()}-")
        assert {name: (folder / name).exists() for name in names} == names
    assert not own.exists()


def test_an_answer_without_a_length_ends_at_its_last_token(tmp_path, monkeypatch):
    window = tmp_path / "window"

    class Tool:
        def run(self, *_, **__):
            window.with_suffix(".json").write_text('{"ttfts": [1.0, 2.0], "itls": [[0.5, 0.25], []]}')

    monkeypatch.setattr(loadgen, "shared", Tool)
    where = point()
    result = loadgen.send(window, where, [], "http://x", api_key=None, timeout_s=1, watch=lambda: None)
    assert result["latencies"] == [1.75, 2.0]
