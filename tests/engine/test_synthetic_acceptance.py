"""Synthetic acceptance and weightless shapes: what a server is told, what is kept, and that both serve."""

import json
import os

import pytest
import torch
from engine_models import cut_down
from pydantic import ValidationError

import factories
from specbook import engine
from specbook.bench import experiments, provenance, traffic_phases
from specbook.bench.traffic_phases import ClosedLoops
from specbook.config.chapter import Experiment
from specbook.config.schema import Speculation, Target
from specbook.engine import preflight
from specbook.engine.base import Build
from specbook.engine.counters import delta, settled
from specbook.engine.vllm.engine import Vllm
from specbook.errors import ConfigError

RATES = (0.8, 0.5, 0.3)
PLAYED = Speculation(
    method="eagle3", model="org/head", num_speculative_tokens=3, synthetic_acceptance_rates=RATES
)
OWN = PLAYED.model_copy(update={"synthetic_acceptance_rates": None})
SHAPE = Target(name="shape", model="org/target", max_model_len=512, load_format="dummy")


def test_the_server_is_told_of_rates_and_of_random_weights():
    line = Vllm().command(SHAPE, PLAYED, 1)
    assert line[line.index("--load-format") + 1] == "dummy"
    told = json.loads(line[line.index("--speculative-config") + 1])
    assert told["rejection_sample_method"] == "synthetic"
    assert told["synthetic_acceptance_rates"] == list(RATES)
    plain = Vllm().command(SHAPE.model_copy(update={"load_format": "auto"}), OWN, 1)
    assert "--load-format" not in plain
    assert "rejection_sample_method" not in plain[plain.index("--speculative-config") + 1]


@pytest.mark.parametrize(
    ("device", "how", "worker"),
    [
        ("cpu", PLAYED, "specbook.engine.vllm.cpu_worker.PlayedAcceptance"),
        ("cpu", OWN, "specbook.engine.vllm.cpu_worker.Worker"),
        ("cpu", None, None),
        ("accelerator", PLAYED, None),
    ],
)
def test_the_cpu_build_alone_gets_its_own_worker(monkeypatch, device, how, worker):
    monkeypatch.setattr(Vllm, "build", lambda self: Build("vllm", "0.32.0", device))
    line = Vllm().command(SHAPE, how, 1)
    assert (line[line.index("--worker-cls") + 1] if "--worker-cls" in line else None) == worker


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ((0.8, 0.9, 0.1), "rise"),
        ((0.8, 0.5), "2 positions, and K is 3"),
        ((1.2, 0.5, 0.1), "less than or equal to 1"),
        ((0.8, 0.5, -0.1), "greater than or equal to 0"),
    ],
)
def test_rates_that_no_draft_could_have_are_refused(rates, message):
    with pytest.raises(ValidationError, match=message):
        Speculation(**PLAYED.model_dump() | {"synthetic_acceptance_rates": rates})


def kept(draft, uniform, rates, ends, chosen=None):
    """[requests, K + 1] of what `play` leaves; a target's own tokens are 100 and on, bonus ones 200."""
    from specbook.engine.vllm.cpu_worker import play

    output = torch.full((len(ends), len(rates) + 1), -1, dtype=torch.int32)
    instead = torch.arange(100, 100 + len(draft))
    bonus = torch.arange(200, 200 + len(ends)).unsqueeze(1)
    numbers = torch.tensor(uniform, dtype=torch.float64), torch.tensor(rates)
    play(output, torch.tensor(ends), torch.tensor(draft), instead, bonus, chosen, *numbers)
    return output.tolist()


def test_tokens_are_kept_up_to_the_first_refused():
    # Three requests of 3, 0 and 2 draft tokens: the second is refused its second, the last keeps all.
    got = kept([1, 2, 3, 4, 5], [0.1, 0.9, 0.1, 0.1, 0.1], [0.8, 0.5, 0.5], [3, 3, 5])
    assert got == [[1, 101, -1, -1], [201, -1, -1, -1], [4, 5, 202, -1]]


def test_padding_is_never_accepted():
    assert kept([-1, 2], [0.0, 0.0], [1.0, 1.0], [2]) == [[100, -1, -1]]
    assert kept([1, 2], [0.0, 0.0], [1.0], [1, 2], chosen=[False, True]) == [[-1, -1], [2, 201]]


def test_over_many_draws_the_rates_are_those_that_were_set():
    rng = torch.Generator().manual_seed(0)
    n, conditional = 4000, [0.8, 0.5 / 0.8, 0.3 / 0.5]
    uniform = torch.rand(3 * n, generator=rng).tolist()
    got = kept([7] * 3 * n, uniform, conditional, list(range(3, 3 * n + 1, 3)))
    joint = [sum(all(t == 7 for t in row[: d + 1]) for row in got) / n for d in range(3)]
    assert joint == pytest.approx(RATES, abs=0.03)


@pytest.mark.parametrize("settings", [[0.0, 0.7, 1.3], [5, 20, 0]])
def test_each_draft_token_has_its_requests_setting(settings):
    # Three requests of 2, 0 and 1 draft tokens; floats are not cut, and 0 stands for 1.
    from specbook.engine.vllm.cpu_worker import expand

    values = torch.tensor(settings)
    output = torch.full((3,), -1).to(values.dtype)
    expand(output, values, torch.tensor([2, 2, 3], dtype=torch.int32), 0, 1)
    first, _, last = (value or 1 for value in settings)
    assert output.tolist() == pytest.approx([first, first, last])


def test_a_worker_leaves_its_core_only_to_compile():
    from specbook.engine.vllm.cpu_worker import any_core

    all_cores = os.sched_getaffinity(0)
    one = {min(all_cores)}
    os.sched_setaffinity(0, one)
    try:
        with any_core():
            assert os.sched_getaffinity(0) == all_cores
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, all_cores)


def test_without_weights_a_folder_is_served_as_a_shape_only(tmp_path):
    target, _ = cut_down(tmp_path, SHAPE)
    preflight.check(target, None)
    with pytest.raises(ConfigError, match=r"lacks model\.safetensors"):
        preflight.check(target.model_copy(update={"load_format": "auto"}), None)
    assert provenance.model_sha256(target.model, None).startswith("shape:")


@pytest.mark.engine
def test_vllm_accepts_as_often_as_it_is_told(played):
    """Random weights agree on nothing: all that is accepted is played."""
    asked = ClosedLoops(domain="json", concurrency=[2], turns=1, requests_per_sequence=8, max_tokens=60)
    how, before = asked.phases(2), played.counters()
    traffic_phases.timed(played, how, seed=1)
    counted = delta(before, settled(played.counters, before, how.num_requests)).spec_decode
    share = [n / counted.num_drafts for n in counted.num_accepted_tokens_per_pos]
    assert counted.num_drafts > 300
    # Within four standard errors.
    assert share == pytest.approx(played.speculation.synthetic_acceptance_rates, abs=0.1)


def test_a_drafts_own_acceptance_is_counted_and_then_played(echo, scratch, monkeypatch):
    """The second engine plays none, and so both servers accept alike: what it was told is looked at."""
    told, start = [], engine.for_target(echo).command
    steady = echo.model_copy(update={"extra_args": ("steadily",)})
    monkeypatch.setattr(engine.for_target(echo), "command", lambda *how: told.append(how[1]) or start(*how))
    asked = Experiment(
        name="playback",
        parameters={
            "target": steady.model_dump(mode="json"), "domain": "json", "concurrency": [2], "turns": 2,
            "speculation": {"method": "ngram", "num_speculative_tokens": 3},
            "requests_per_sequence": 2, "max_tokens": 60,
        },
    )  # fmt: skip
    assert experiments.work(asked).starts == 2
    found = experiments._run(asked, "test", factories.HARDWARE)
    assert found.status == "ok", found.reason
    assert 0 < found.result["rates"][2] <= found.result["rates"][0] <= 1
    assert [how.synthetic_acceptance_rates for how in told] == [None, tuple(found.result["rates"])]
    (pair,) = found.result["pairs"]
    assert pair["real"]["rates"] == found.result["rates"]
    assert len(pair["real"]["step_s"]) == len(pair["played"]["step_s"]) == 2
    assert all(len(turn) == 2 * pair["concurrency"] for turn in pair["real"]["tpot_s"])
