"""What a hardware folder's `machine.yaml` says: which machines it is for, what they hold, what they serve."""

from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from specbook import paths
from specbook.config.schema import Frozen, Name
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain

SHARED = "shared"
"""Folder of params/ with the chapters of every machine that serves models of `params/models/`."""
NO_HARDWARE = ("models", SHARED)
"""Folders of params/ that are no machine's."""


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


class MachineFile(Frozen):
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

    @property
    def rank_memory_bytes(self) -> float | None:
        """Memory of one rank."""
        return None if self.memory_bytes is None else self.memory_bytes / self.ranks_per_device

    def devices_for(self, ranks: int) -> int:
        """Devices that so many ranks take."""
        return -(-ranks // self.ranks_per_device)


File = TypeVar("File", bound=MachineFile)


def folder(hardware: str) -> str:
    """The folder of params/: `h200` of `h200:llama-3.3-70b-fp8`."""
    return hardware.partition(":")[0]


def read(hardware: str, kind: type[File]) -> File:
    """The machine of a hardware; any machine where its folder has no `machine.yaml`.

    Raises:
        ConfigError: if the file cannot be used.
    """
    path = paths.params_dir() / folder(hardware) / "machine.yaml"
    if not path.is_file():
        return kind()
    try:
        return kind.model_validate(read_file(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, kind)}") from error
