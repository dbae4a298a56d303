"""Synthetic acceptance and weightless shapes: what a server is told, what is kept, and that both serve."""

import json

import pytest
import torch
from engine_models import IN_THE_CORE, VOCAB_SIZE, make_tokenizer
from pydantic import ValidationError

import factories
from specbook.bench import experiments, loadgen, provenance
from specbook.bench.experiments import synthetic_acceptance
from specbook.config import models
from specbook.config.chapter import Experiment
from specbook.config.schema import Speculation, Target
from specbook.engine import preflight
from specbook.engine.base import Build
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


def shaped(folder, name, **changes):
    """A folder with the shape of a model in params/models/, cut down to a size that starts in seconds."""
    config = models.shape(name) | {
        "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "vocab_size": VOCAB_SIZE, "torch_dtype": "float32", **changes,
    }  # fmt: skip
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(config))
    make_tokenizer(folder / name)
    return str(folder / name)


def cut_down(folder):
    target = SHAPE.model_copy(
        update={"model": shaped(folder, "qwen3-32b-bf16", num_hidden_layers=7), "dtype": "float32"}
    ).model_copy(update={"execution": "eager", "max_num_seqs": 4, "extra_args": IN_THE_CORE})
    return target, shaped(folder, "qwen3-32b-eagle3", draft_vocab_size=512)


def test_without_weights_a_folder_is_served_as_a_shape_only(tmp_path):
    target, _ = cut_down(tmp_path)
    preflight.check(target, None)
    with pytest.raises(ConfigError, match=r"lacks model\.safetensors"):
        preflight.check(target.model_copy(update={"load_format": "auto"}), None)
    assert provenance.model_sha256(target.model, None).startswith("shape:")


@pytest.mark.engine
def test_a_drafts_own_acceptance_is_counted_and_then_played(tmp_path, monkeypatch):
    """Random weights agree on nothing: what is counted of them is exchanged for RATES before it is played."""
    target, head = cut_down(tmp_path)
    asked = Experiment(
        name="playback",
        parameters={
            "target": target.model_dump(mode="json"), "domain": "json", "concurrency": [2], "turns": 2,
            "speculation": {"method": "eagle3", "model": head, "num_speculative_tokens": 3},
            "requests_per_sequence": 2, "max_tokens": 60,
        },
    )  # fmt: skip
    assert experiments.work(asked).starts == 2
    loadgen.shared()  # its imports take as long as a server's
    own, instead = [], factories.counters(per_pos=[round(100 * rate) for rate in RATES])
    whole = synthetic_acceptance._counted
    monkeypatch.setattr(
        synthetic_acceptance, "_counted", lambda *given: own.extend(whole(*given)) or [instead]
    )
    found = experiments.registry._run(asked, "test", factories.HARDWARE)
    assert found.status == "ok", found.reason
    assert synthetic_acceptance._rates(own) == (0.0, 0.0, 0.0)
    assert found.result["rates"] == list(RATES)
    (pair,) = found.result["pairs"]
    assert pair["real"]["rates"] == [0.0, 0.0, 0.0]
    assert pair["played"]["rates"] == pytest.approx(
        RATES, abs=0.15
    )  # of some 180 drafts: four standard errors
    assert len(pair["real"]["step_s"]) == len(pair["played"]["step_s"]) == 2
    assert all(len(turn) == 2 * pair["concurrency"] for turn in pair["real"]["tpot_s"])
