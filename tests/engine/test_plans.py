"""Every shipped plan and profile is a command line that the installed engine's own parser takes."""

import pytest

from specbook import config, engine
from specbook.config import machines
from specbook.engine.vllm.engine import Vllm
from specbook.errors import ConfigError
from specbook.stats import memory, shape

HARDWARES = [
    name
    for folder in config.hardwares()
    for name in (
        folder,
        *(f"{folder}:{one.name}" for one in machines.read(folder).serves),
    )
]
"""Each machine, and each with each of the models that it serves."""


@pytest.fixture(scope="module")
def parser():
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser(exit_on_error=False))


def parsed(parser, target, speculation):
    line = Vllm().command(target, speculation, 8000)
    return parser.parse_args(line[line.index("--host") :])


def agrees(parser, target, speculation):
    """Whether the engine read what the plan says; of another engine, whether that takes it at all."""
    if target.engine != "vllm":
        assert engine.for_target(target).refusal(target, speculation) is None
        return
    got = parsed(parser, target, speculation)
    drafted = got.speculative_config or {}
    want = (target.dtype, target.revision, target.tensor_parallel_size, target.max_model_len)
    assert (got.dtype, got.revision, got.tensor_parallel_size, got.max_model_len) == want
    assert (drafted.get("method"), drafted.get("revision"), drafted.get("num_speculative_tokens")) == (
        (speculation.method, speculation.revision, speculation.num_speculative_tokens)
        if speculation
        else (None, None, None)
    )


@pytest.mark.parametrize("hardware", HARDWARES)
@pytest.mark.parametrize("group", config.GROUPS)
def test_plans(parser, hardware, group):
    for chapter in config.chapters(["all"], hardware):
        sweeps = config.sweeps(config.load(chapter, hardware, group))
        assert ":" in hardware or all(sweep.points() for sweep in sweeps)  # those with models share them
        for target, speculation in [arm for sweep in sweeps for arm in sweep.arms()]:
            agrees(parser, target, speculation)


SHAPED = [name for name in HARDWARES if name.startswith(("cpu", "h100", "h200", "b200"))]


@pytest.mark.parametrize("hardware", SHAPED)
@pytest.mark.parametrize("group", config.GROUPS)
def test_the_break_even_map(parser, hardware, group):
    if "gpt-oss" in hardware:  # its head's shape is not known
        with pytest.raises(ConfigError, match="no shape of"):
            config.load("appendix_break_even", hardware, group)
        return
    (sweep,) = config.load("appendix_break_even", hardware, group).parts()
    for target, speculation in sweep.arms():
        agrees(parser, target, speculation)
        assert parsed(parser, target, speculation).load_format == "dummy"


@pytest.mark.parametrize("hardware", config.hardwares())
def test_profiles(parser, hardware):
    for name in machines.profiles(hardware):
        profile = machines.profile(f"{hardware}/{name}")
        agrees(parser, profile.target, profile.speculation)


def test_the_engine_knows_every_key_of_a_speculative_config():
    """The parser takes any JSON here: the keys are those of the engine's own class."""
    from dataclasses import fields

    from vllm.config import SpeculativeConfig

    known = {field.name for field in fields(SpeculativeConfig)}
    (sweep,) = config.load("appendix_break_even", "cpu", "full").parts()
    for played in (one.engine_config() for one in sweep.speculations()):
        assert set(played) <= known
        rates = played["synthetic_acceptance_rates"]
        assert SpeculativeConfig._resolve_synthetic_acceptance_rates(len(rates), rates, None) == rates
    for hardware in config.hardwares():
        for name in machines.profiles(hardware):
            speculation = machines.profile(f"{hardware}/{name}").speculation
            assert set(speculation.engine_config() if speculation else {}) <= known


def test_a_renamed_flag_fails(parser, monkeypatch):
    from argparse import ArgumentError

    profile = machines.profile("h100/eagle3")
    renamed = profile.target.model_copy(update={"extra_args": ("--max-model-length", "9")})
    with pytest.raises((SystemExit, ArgumentError, ValueError)):
        parsed(parser, renamed, None)


def test_memory_sums_take_the_engines_share():
    from vllm.config import CacheConfig
    from vllm.model_executor.layers.fused_moe.oracle import mxfp4

    assert CacheConfig().gpu_memory_utilization == memory.ENGINE_SHARE
    form, size = shape.FORMATS["mxfp4"], 2880
    rounded = mxfp4.mxfp4_round_up_hidden_size_and_intermediate_size(mxfp4.Mxfp4MoeBackend.MARLIN, size, size)
    assert rounded == tuple(
        -(-size // multiple) * multiple for multiple in (form.hidden_multiple, form.intermediate_multiple)
    )
