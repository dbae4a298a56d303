"""A chapter of several parts: sweeps of servers, each with its own target, and experiments of other kinds."""

from collections.abc import Collection
from typing import Self

from pydantic import Field, JsonValue, model_validator

from specbook.config.plan import Plan
from specbook.config.schema import Frozen, Point, digest


class Experiment(Frozen):
    """Something to measure that is no sweep of a server: a training run, scaling, a router under drift."""

    name: str
    """What `specbook.bench.experiments` registers."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Its own; checked before anything is measured."""

    @property
    def target(self) -> str | None:
        """The model that it serves; None where it serves none."""
        return next(iter(self._named("target")), None)

    @property
    def models(self) -> list[str]:
        """The models that it serves and drafts with."""
        return self._named("target", "speculation", "instead")

    def _named(self, *roles: str) -> list[str]:
        given = [self.parameters.get(role) for role in roles]
        return [str(one["model"]) for one in given if isinstance(one, dict) and one.get("model")]

    @property
    def title(self) -> str:
        """For people: `scaling (replicas=2)`."""
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.name} ({given})" if given else self.name

    @property
    def key(self) -> str:
        """16 hex digits that name it: the digest of what was set."""
        return digest([self.name, self.parameters], 16)


class Chapter(Frozen):
    """What a chapter measures where one sweep is not it. Its groups hold `sweeps` and `experiments`."""

    chapter: str
    hardware: str
    """Folder under params/."""
    group: str
    sweeps: tuple[Plan, ...] = ()
    """Each has the keys of a group with one sweep."""
    experiments: tuple[Experiment, ...] = ()
    context: str | None = None
    """Kubeconfig context for experiments on a cluster; None: as `specbook.deploy.kubectl.selected` says."""

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        keys = [part.key for part in (*self.points(), *self.experiments)]
        if len(set(keys)) < len(keys):
            raise ValueError("two sweeps or experiments ask for the same thing: name it once")
        return self

    def without(self, models: Collection[str]) -> Self:
        """The chapter less its sweeps, drafts and experiments of these models, named as plans name them."""
        sweeps = tuple(one.without(models) for one in self.sweeps if one.target.model not in models)
        asked = tuple(one for one in self.experiments if not set(models).intersection(one.models))
        return self.model_copy(update={"sweeps": sweeps, "experiments": asked})

    def models(self) -> list[str]:
        """Every model that it serves or drafts with, once."""
        parts = [*(one.models() for one in self.sweeps), *(one.models for one in self.experiments)]
        return list(dict.fromkeys(name for part in parts for name in part))

    def check(self) -> None:
        """Nothing: each sweep was checked."""

    def parts(self) -> list[Plan]:
        """The sweeps that it measures itself."""
        return list(self.sweeps)

    def points(self) -> list[Point]:
        """Those of all sweeps, in their order."""
        return [point for sweep in self.sweeps for point in sweep.points()]
