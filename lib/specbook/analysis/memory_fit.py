"""What fits on a machine, computed: models in each format on so many of its devices -> sums of bytes."""

from collections.abc import Iterator

from specbook.config import models
from specbook.config.machines import Machine
from specbook.errors import ConfigError
from specbook.stats import memory
from specbook.stats.memory import Memory
from specbook.stats.shape import FORMATS, ModelShape

LENGTH = 8192
"""Tokens of the sequences that are counted."""
BATCH = 32
"""Sequences in a batch, which decides how many logits a step holds."""


def pairs() -> Iterator[tuple[str, str]]:
    """Every model in every format that its file names weights of on a hub: others fit anywhere."""
    for name in models.names():
        yield from ((name, form) for form, one in models.load(name).weights.items() if one.pip is None)


def shape(name: str) -> ModelShape:
    """The shape of a model of `params/models/`.

    Raises:
        ConfigError: naming its config.json, if a size is missing there, or its architecture is not counted.
    """
    config = models.config(name)
    try:
        return ModelShape.from_config(config)
    except ConfigError as error:
        raise ConfigError(f"params/models/{name}/config.json: {error}") from error


def weight_bytes(name: str, form: str, padded: bool = True) -> float:
    """Bytes of all weights of a model in a format, on one device; see `memory.weight_bytes`."""
    return memory.weight_bytes(shape(name), FORMATS[form], padded)


def rank(machine: Machine, name: str, form: str, devices: int) -> Memory:
    """The sum of one rank, the model shared by so many whole devices."""
    return Memory.of(
        shape(name), FORMATS[form], machine.rank_memory_bytes or 0.0, LENGTH, BATCH,
        ranks=devices * machine.ranks_per_device,
    )  # fmt: skip


def fewest_devices(machine: Machine, name: str, form: str) -> int | None:
    """The least power of two of devices on which a sequence fits; None if none of a machine's does."""
    counts = (n for n in (1, 2, 4, 8, 16) if n <= (machine.devices or 1))
    return next((n for n in counts if rank(machine, name, form, n).sequences > 0), None)
