"""What a hardware's folder says: which machines it is for, what they hold and serve, and named servers.

`machine.yaml` describes the machine. Named servers are `<hardware>/<name>` of its `profiles.yaml`. A machine
that serves models has one of each, `h200/qwen3-32b-fp8`, and of each with each of its heads,
`h200/qwen3-32b-fp8+eagle3`; `baseline` and `eagle3` are those of its first model.
"""

from fnmatch import fnmatch
from typing import Any, Literal

from pydantic import Field, ValidationError

from specbook import paths
from specbook.config import models
from specbook.config.schema import Frozen, Name, Speculation, Target
from specbook.config.yaml_files import read_as, read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain, near

SHARED = "shared"
"""Folder of params/ with the chapters of every machine that serves models of `params/models/`."""
NO_HARDWARE = ("models", SHARED)
"""Folders of params/ that are no machine's."""
K = 3
"""Draft tokens a step of a served head: where public cards and their engines' recipes start."""


class Served(Frozen):
    """A model of `params/models/` as one machine serves it."""

    model: Name
    """A folder of params/models/."""
    weights: Name
    """Which of its weights, e.g. `fp8`."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """Ranks that share the model: GPUs, or logical cores of a Neuron chip."""
    max_model_len: int = Field(default=8192, ge=16)
    max_num_seqs: int = Field(default=64, ge=1)
    extra_args: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What follows the colon of `h200:llama-3.3-70b-fp8`."""
        return f"{self.model}-{self.weights}"


class Machine(Frozen):
    """What a machine must be for a plan's numbers to be those of the folder's name, and what it has."""

    kind: Literal["cpu", "cuda", "rocm", "neuron"] | None = None
    """What the engine computes on; None where any will do."""
    name: str = "*"
    """Pattern of the accelerator's name as its driver gives it, such as `NVIDIA H100*`."""
    title: str = ""
    """For people."""
    memory_bytes: int | None = Field(default=None, gt=0)
    """Bytes of memory of one device, as the engine counts it; None where it is not known."""
    memory_source: str = ""
    ranks_per_device: int = Field(default=1, ge=1)
    """Into how many ranks of tensor parallelism a device is cut, its memory with it."""
    devices: int | None = Field(default=None, ge=1)
    """In the largest machine of this kind."""
    peak: str | None = None
    """The device's name in the list of datasheet peaks."""
    price: str | None = None
    """Entry of `params/prices.yaml`; None where no list price was found."""
    serves: tuple[Served, ...] = ()
    """Models with the chapters of `params/shared/`, the first by default."""

    def fits(self, kind: str | None, accelerator: str | None) -> bool:
        """Whether it is a machine that computes on `kind`, its accelerator of this name; a slice of a GPU is
        only one where the pattern says MIG."""
        name = accelerator or ""
        whole = " MIG " not in name or "MIG" in self.name
        return self.kind in (None, kind) and fnmatch(name, self.name) and whole

    @property
    def rank_memory_bytes(self) -> float | None:
        """Memory of one rank."""
        return None if self.memory_bytes is None else self.memory_bytes / self.ranks_per_device

    def devices_for(self, ranks: int) -> int:
        """Devices that so many ranks take."""
        return -(-ranks // self.ranks_per_device)


def folder(hardware: str) -> str:
    """The folder of params/: `h200` of `h200:llama-3.3-70b-fp8`."""
    return hardware.partition(":")[0]


def read(hardware: str) -> Machine:
    """The machine of a hardware; any fits where it has no `machine.yaml`. ConfigError if that is unusable."""
    path = paths.params_dir() / folder(hardware) / "machine.yaml"
    return read_as(path, Machine) if path.is_file() else Machine()


def hardwares() -> list[str]:
    """Every folder of params/ that is a hardware's."""
    folders = paths.params_dir().glob("*/")
    return sorted(path.name for path in folders if path.is_dir() and path.name not in NO_HARDWARE)


def served(hardware: str) -> Served | None:
    """What a hardware serves: the model after its colon, else its first; None where it names no models.

    Raises:
        ConfigError: if it does not serve what follows the colon, naming the near match.
    """
    listed = {one.name: one for one in read(hardware).serves}
    base, colon, chosen = hardware.partition(":")
    if not colon:
        return next(iter(listed.values()), None)
    if chosen not in listed:
        raise ConfigError(f"params/{base}/machine.yaml serves no {chosen!r}{near(chosen, listed)}")
    return listed[chosen]


def target(chosen: Served) -> Target:
    """The target that a machine serves; ConfigError if the model has no such weights."""
    listed = {str(form): weights for form, weights in models.load(chosen.model).weights.items()}
    stored = listed.get(chosen.weights)
    if stored is None:
        fitting = near(chosen.weights, listed)
        raise ConfigError(f"model {chosen.model!r} has no weights {chosen.weights!r}{fitting}")
    return Target(
        name=chosen.name, model=stored.model, revision=stored.revision,
        dtype="bfloat16" if chosen.weights == "bf16" else "auto",
        **chosen.model_dump(exclude={"model", "weights"}),
    )  # fmt: skip


class Profile(Frozen):
    """A server to start, and what its hour costs."""

    target: Target
    speculation: Speculation | None = None
    price: str | None = None
    """Entry of `params/prices.yaml`; None when no list price fits this machine."""


def profiles(hardware: str) -> dict[str, Any]:
    """A hardware's profiles by their short names: its models', and its file's as they stand there.

    Of each model it is one server, and one with each of its heads.
    """
    by_name: dict[str, Any] = {}
    machine = read(hardware)
    for chosen in machine.serves:
        base = Profile(target=target(chosen), price=machine.price)
        by_name[chosen.name] = base
        for name, head in models.load(chosen.model).heads.items():
            speculation = Speculation(num_speculative_tokens=K, **head.draft.model_dump())
            by_name[f"{chosen.name}+{name}"] = base.model_copy(update={"speculation": speculation})
    first = next(iter(machine.serves), None)
    short = {"baseline": first.name, "eagle3": f"{first.name}+eagle3"} if first else {}
    by_name |= {name: by_name[long] for name, long in short.items() if long in by_name}
    path = paths.params_dir() / hardware / "profiles.yaml"
    return by_name | (read_file(path) if path.is_file() else {})


def profile(name: str) -> Profile:
    """The profile `<hardware>/<name>`, e.g. `cpu/eagle3`; ConfigError, naming the near match, if none is."""
    hardware, _, short = name.partition("/")
    by_hardware = {one: named for one in hardwares() if (named := profiles(one))}
    if hardware not in by_hardware:
        raise ConfigError(f"no profile {name!r}: no hardware {hardware!r}{near(hardware, by_hardware)}")
    if short not in by_hardware[hardware]:
        full = [f"{hardware}/{key}" for key in by_hardware[hardware]]
        raise ConfigError(f"no profile {name!r}{near(name, full)}")
    try:
        return Profile.model_validate(by_hardware[hardware][short])
    except ValidationError as error:
        raise ConfigError(f"profile {name}: {explain(error, Profile)}") from error
