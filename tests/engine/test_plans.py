"""Every shipped plan and profile is a command line that the installed engine's own parser takes."""

from pathlib import Path

import pytest

from specbook import plan, profiles
from specbook.engine import vllm

PARAMS = Path(__file__).parents[2] / "params"
PLANS = sorted(PARAMS.glob("*/[0-9]*.yaml"))


@pytest.fixture(scope="module")
def parser():
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser(exit_on_error=False))


def parsed(parser, target, speculation):
    command = vllm.command(target, speculation, 8000)
    return parser.parse_args(command[command.index("--host") :])


@pytest.mark.parametrize("path", PLANS, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("group", plan.GROUPS)
def test_plans(parser, path, group):
    for target, speculation in plan.load(path.stem, path.parent.name, group).arms():
        got = parsed(parser, target, speculation)
        assert (got.model is not None, got.dtype) == (True, target.dtype)
        assert (got.speculative_config or {}).get("method") == (speculation and speculation.method)


@pytest.mark.parametrize("name", ["cpu/eagle3", "cpu/baseline", "h100/eagle3", "h100/baseline"])
def test_profiles(parser, name):
    profile = profiles.load(name)
    assert parsed(parser, profile.target, profile.speculation).max_model_len == profile.target.max_model_len
