"""Noise in the router: what a server is told, what must be there, and that a real one serves with it."""

import json
from importlib import metadata

import pytest
from pydantic import ValidationError

from specbook.bench.greedy import ask
from specbook.config.schema import Load, Point, Target, Traffic
from specbook.engine import preflight
from specbook.engine.server import Server
from specbook.engine.vllm import router_noise
from specbook.engine.vllm.engine import Vllm
from specbook.errors import ConfigError

QUIET = Target(name="tiny", model="org/tiny", max_model_len=512)
NOISY = QUIET.model_copy(update={"router_noise": 0.5})


@pytest.fixture
def installed(monkeypatch):
    """The plugin is there, whatever this environment was installed from."""
    point = metadata.EntryPoint(router_noise.PLUGIN, "specbook:register", router_noise.GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)


def moe(folder, experts=8, taken=2, architecture=router_noise.OF):
    config = {"architectures": [architecture], "num_experts": experts, "num_experts_per_tok": taken}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return NOISY.model_copy(update={"model": str(folder)})


def test_the_server_is_told_of_noise_and_only_of_noise():
    line = Vllm().command(NOISY, None, 1)
    told = json.loads(line[line.index("--hf-overrides") + 1])
    assert told == {"architectures": ["RouterNoiseQwen3MoeForCausalLM"], "router_noise": 0.5}
    assert "--hf-overrides" not in Vllm().command(QUIET, None, 1)


def test_noise_is_part_of_a_points_key():
    rest = {
        "chapter": "05_moe", "speculation": None, "traffic": Traffic(domain="json"), "restart": 0,
        "load": Load(concurrency=1, num_requests=1, num_warmups=0),
    }  # fmt: skip
    quiet, zero, noisy, louder = (
        Point(target=Target(**{**QUIET.model_dump(), **more}), **rest)
        for more in ({}, {"router_noise": 0.0}, {"router_noise": 0.5}, {"router_noise": 1.0})
    )
    assert quiet.key == zero.key
    assert len({quiet.key, noisy.key, louder.key}) == 3
    assert len({quiet.cell_key, noisy.cell_key, louder.cell_key}) == 3


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_a_strength_that_is_none_is_refused(strength):
    with pytest.raises(ValidationError, match="router_noise"):
        Target(**{**QUIET.model_dump(), "router_noise": strength})


@pytest.mark.usefixtures("installed")
def test_with_the_plugin_and_a_mixture_nothing_is_refused(tmp_path):
    assert router_noise.refusal(moe(tmp_path / "moe")) is None
    assert router_noise.refusal(QUIET) is None


def test_a_missing_plugin_is_named_with_its_fix(monkeypatch, tmp_path):
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])
    with pytest.raises(
        ConfigError, match=r"'specbook_router_noise', which is not installed: run `pip install"
    ):
        Server(moe(tmp_path / "moe")).__enter__()


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_is_switched_off_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("VLLM_PLUGINS", "other,more")
    assert "add it to VLLM_PLUGINS" in router_noise.refusal(moe(tmp_path / "moe"))


@pytest.mark.usefixtures("installed")
def test_a_model_without_a_router_has_no_noise(tmp_path):
    target = moe(tmp_path / "dense", architecture="Qwen3ForCausalLM")
    assert "router_noise is for Qwen3MoeForCausalLM" in router_noise.refusal(target)


def test_fewer_experts_than_a_token_takes_are_refused(tmp_path):
    moe(tmp_path / "moe", taken=9)
    with pytest.raises(ConfigError, match=r"num_experts_per_tok 9 exceeds num_experts 8"):
        preflight.check_experts(tmp_path / "moe")


def test_the_plugin_is_declared():
    pyproject = (router_noise.__file__.rpartition("/lib/")[0]) + "/pyproject.toml"
    with open(pyproject) as file:
        assert f'{router_noise.PLUGIN} = "specbook.engine.vllm.router_noise:register"' in file.read()


@pytest.mark.engine
def test_a_real_server_answers_with_noise(noisy):
    said = {ask(noisy, "for x in range(10):", 24).token_ids for _ in range(3)}
    assert len(said) == 3  # the same prompt, decoded greedily
