"""Named servers: `params/<hardware>/profiles.yaml`, chosen as `<hardware>/<name>`.

A machine that serves models has a profile of each, `h200/qwen3-32b-fp8`, and of each with each of its heads,
`h200/qwen3-32b-fp8+eagle3`; `baseline` and `eagle3` are those of its first.
"""

from typing import Any

from pydantic import ValidationError

from specbook import paths
from specbook.config import machines, models
from specbook.config.plan_files import hardwares
from specbook.config.schema import Frozen, Speculation, Target
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain, near

K = 3
"""Draft tokens a step of a served head: where public cards and their engines' recipes start."""


class Profile(Frozen):
    """A server to start, and what its hour costs."""

    target: Target
    speculation: Speculation | None = None
    price: str | None = None
    """Entry of `params/prices.yaml`; None when no list price fits this machine."""


def names(hardware: str) -> list[str]:
    """The short names of a hardware's profiles: its file's, and one or more for each model that it serves."""
    return sorted({**_written(hardware), **_served(hardware)})


def load(name: str) -> Profile:
    """The profile called `<hardware>/<name>`, e.g. `cpu/eagle3`.

    Raises:
        ConfigError: if there is none, naming the near match.
    """
    hardware, _, short = name.partition("/")
    known = [one for one in hardwares() if names(one)]
    if hardware not in known:
        raise ConfigError(f"no profile {name!r}: no hardware {hardware!r}{near(hardware, known)}")
    if short not in names(hardware):
        full = [f"{hardware}/{key}" for key in names(hardware)]
        raise ConfigError(f"no profile {name!r}{near(name, full)}")
    written = _written(hardware)
    if short not in written:
        return _served(hardware)[short]
    try:
        return Profile.model_validate(written[short])
    except ValidationError as error:
        raise ConfigError(f"profile {name}: {explain(error, Profile)}") from error


def _written(hardware: str) -> dict[str, Any]:
    path = paths.params_dir() / hardware / "profiles.yaml"
    return read_file(path) if path.is_file() else {}


def _served(hardware: str) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    machine = machines.read(hardware, machines.MachineFile)
    for chosen in machine.serves:
        base = Profile(target=models.target(chosen), price=machine.price)
        found[chosen.name] = base
        for name, head in models.load(chosen.model).heads.items():
            speculation = Speculation(num_speculative_tokens=K, **head.draft.model_dump())
            found[f"{chosen.name}+{name}"] = base.model_copy(update={"speculation": speculation})
    first = next(iter(machine.serves), None)
    short = {"baseline": first.name, "eagle3": f"{first.name}+eagle3"} if first else {}
    return found | {name: found[long] for name, long in short.items() if long in found}
