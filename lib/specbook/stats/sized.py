"""What a target is, so far as its config says: shape, memory format, and widths as it is served."""

from pathlib import Path
from typing import NamedTuple

from specbook.config import models, schema
from specbook.config.schema import Target
from specbook.errors import ConfigError
from specbook.stats import memory, precision, shape
from specbook.stats.memory import FORMATS, Format
from specbook.stats.precision import Widths
from specbook.stats.shape import ModelShape


class Sized(NamedTuple):
    """A target whose shape is known."""

    shape: ModelShape
    form: Format
    """Format of its weights in memory."""
    widths: Widths
    """Bytes per number of what a step reads."""


def of(target: Target) -> Sized | None:
    """Shape, format and widths of the target, from its folder or the model file that names its hub id.

    None where neither is of a known kind.
    """
    folder = Path(schema.resolve_model(target.model))
    try:
        return _in_folder(target, folder) if folder.is_dir() else _in_model_file(target)
    except ConfigError:
        return None


def _in_folder(target: Target, folder: Path) -> Sized | None:
    found = precision.widths(target, shape.read_config(folder / "config.json"))
    form = Format(found.layer_bytes, found.layer_bytes) if found else None
    return Sized(ModelShape.from_config(folder), form, found) if form and found else None


def _in_model_file(target: Target) -> Sized | None:
    """Experts are the most of a model that narrows them alone, so all its layers count as wide as they."""
    found = models.of(target.model)
    if found is None:
        return None
    name, form = found[0], FORMATS[found[1]]
    served = Widths(dtype_bytes=memory.KEPT_BYTES, layer_bytes=form.feed_forward_bytes)
    return Sized(ModelShape.from_config(models.config(name)), form, served)
