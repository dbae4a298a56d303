"""Models that several machines serve: `params/models/<name>/model.yaml`, with the config.json beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from specbook import methods, paths
from specbook.errors import ConfigError
from specbook.methods.base import TrainedDraft
from specbook.mistakes import explain, near
from specbook.plan import machines
from specbook.plan.machines import Served
from specbook.plan.reading import read_file
from specbook.plan.schema import Draft, Frozen, Name, Target

Format = Literal["bf16", "fp8", "int4-awq", "mxfp4"]
Revision = Field(default=None, pattern=r"^[0-9a-f]{40}$")


class Weights(Frozen):
    """One set of a model's weights on a hub."""

    model: Name
    """Hub id."""
    revision: str | None = Revision
    """The repository's commit; None where it was not found."""
    source: str = Field(pattern=r"\S")


class Head(Frozen):
    """A public draft that was trained for the model."""

    draft: Draft
    num_layers: int = Field(ge=1)
    """Of its own; each keeps keys and values as a layer of the target does."""
    weight_bytes: int | None = Field(default=None, gt=0)
    """Of its files; None where no source gives them."""
    source: str = Field(pattern=r"\S")


class Model(Frozen):
    """A model: its weights in several formats, its public heads, and who hosts it."""

    title: Name
    config_source: str = Field(pattern=r"\S")
    """Where the values of config.json were read."""
    weights: dict[Format, Weights] = Field(min_length=1)
    heads: dict[Name, Head] = Field(default_factory=dict)
    apis: tuple[str, ...] = ()
    """Entries of `params/prices.yaml`: hosts of the same weights."""

    def head_of(self, model: str) -> Head | None:
        """The head with this hub id."""
        return next((head for head in self.heads.values() if head.draft.model == model), None)


def config(name: str) -> Path:
    """The folder that holds the model's config.json."""
    return paths.params_dir() / "models" / name


def names() -> list[str]:
    """Every model of params/models/."""
    return sorted(path.parent.name for path in paths.params_dir().glob("models/*/model.yaml"))


def load(name: str) -> Model:
    """The model of that name.

    Raises:
        ConfigError: if there is none, naming the near match, or its file cannot be used.
    """
    if name not in names():
        raise ConfigError(f"no model {name!r} in params/models/{near(name, names())}")
    path = config(name) / "model.yaml"
    try:
        return Model.model_validate(read_file(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, Model)}") from error


def of(hub_id: str) -> tuple[str, Format] | None:
    """Name and format of the model whose weights have this hub id; None where no model file names it."""
    for name in names():
        for form, weights in load(name).weights.items():
            if weights.model == hub_id:
                return name, form
    return None


def served(hardware: str) -> Served | None:
    """What a hardware serves: the model after its colon, else its first; None where it names no models.

    Raises:
        ConfigError: if it does not serve what follows the colon, naming the near match.
    """
    listed = {one.name: one for one in machines.read(hardware, machines.MachineFile).serves}
    base, colon, chosen = hardware.partition(":")
    if not colon:
        return next(iter(listed.values()), None)
    if chosen not in listed:
        raise ConfigError(f"params/{base}/machine.yaml serves no {chosen!r}{near(chosen, listed)}")
    return listed[chosen]


def target(chosen: Served) -> Target:
    """The target that a machine serves; ConfigError if the model has no such weights."""
    listed = {str(form): weights for form, weights in load(chosen.model).weights.items()}
    found = listed.get(chosen.weights)
    if found is None:
        fitting = near(chosen.weights, listed)
        raise ConfigError(f"model {chosen.model!r} has no weights {chosen.weights!r}{fitting}")
    return Target(
        name=chosen.name, model=found.model, revision=found.revision,
        dtype="bfloat16" if chosen.weights == "bf16" else "auto",
        **chosen.model_dump(exclude={"model", "weights"}),
    )  # fmt: skip


def head(chosen: Served, name: str) -> Head:
    """A head of the served model by its name; ConfigError, naming those there are, if it has none such."""
    heads = load(chosen.model).heads
    if name not in heads:
        raise ConfigError(
            f"params/models/{chosen.model}/model.yaml names no head {name!r}{near(name, heads)}: "
            "add one, or leave the chapter out for this model"
        )
    return heads[name]


def sweep(planned: Mapping[str, Any], hardware: str) -> dict[str, Any]:
    """A sweep's fields; where they name no target, that of the model which the hardware serves.

    Then a draft that is one word is one of its heads, or a method that needs no training. A head's name with
    a question mark behind it (`p-eagle?`) is left out where the model has no such head.
    """
    chosen = served(hardware)
    if chosen is None or "target" in planned:
        return dict(planned)
    aim = target(chosen).model_dump(exclude_defaults=True)
    asked = planned.get("drafts") or ()
    drafts = [_draft(chosen, one) for one in asked if not _lacks(chosen, one)]
    return {**planned, "target": aim, "drafts": drafts}


def _lacks(chosen: Served, given: Any) -> bool:
    if not isinstance(given, str) or not given.endswith("?"):
        return False
    return given.removesuffix("?") not in load(chosen.model).heads


def _draft(chosen: Served, given: Any) -> Any:
    untrained = [one.name for one in methods.known() if not issubclass(one.keys, TrainedDraft)]
    if not isinstance(given, str) or "/" in given or given in untrained:
        return given
    return head(chosen, given.removesuffix("?")).draft.model_dump(exclude_defaults=True)


def cost(planned: Mapping[str, Any], hardware: str) -> dict[str, Any]:
    """A cost plan's fields, with the machine's price, the served model's devices, and that model's hosts."""
    chosen = served(hardware)
    if chosen is None:
        return dict(planned)
    machine = machines.read(hardware, machines.MachineFile)
    given = {"devices": machine.devices_for(chosen.tensor_parallel_size), "price": machine.price}
    hosts = [*load(chosen.model).apis, *planned.get("apis", ())]
    return {**given, **planned, "apis": hosts}
