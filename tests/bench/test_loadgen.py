"""What the load generator is asked to do; that it does it is tested against a real server in tests/engine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from factories import eagle3, point
from specbook.config.schema import Load
from specbook.engine import load_tool
from specbook.engine.vllm import load_worker

CLOSED, POISSON = {"concurrency": 8}, {"request_rate_per_s": 4.0}


def seed(load, speculation=None, restart=0):
    chosen = Load(**load, num_requests=4, num_warmups=0)
    asked = point(speculation, restart=restart).model_copy(update={"load": chosen})
    argv = load_tool().arguments(asked, "http://127.0.0.1:1", Path("prompts.jsonl"), 4, Path("result.json"))
    return int(argv[argv.index("--seed") + 1])


@pytest.mark.parametrize(("load", "draws"), [(CLOSED, 1), (POISSON, 5)])
def test_each_restart_has_poisson_arrivals_of_its_own_and_a_closed_loop_one_seed(load, draws):
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
