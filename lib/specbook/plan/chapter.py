"""A chapter of several parts: sweeps of servers, each with its own target, and experiments of other kinds."""

from typing import Self

from pydantic import Field, JsonValue, model_validator

from specbook.plan.plan import Plan
from specbook.plan.schema import Frozen, Point, digest


class Experiment(Frozen):
    """Something to measure that is no sweep of a server: a training run, scaling, a router under drift."""

    name: str
    """What `specbook.measure.experiments` registers."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Its own; checked before anything is measured."""

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

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        keys = [part.key for part in (*self.points(), *self.experiments)]
        if len(set(keys)) < len(keys):
            raise ValueError("two sweeps or experiments ask for the same thing: name it once")
        return self

    def check(self) -> None:
        """Nothing: each sweep was checked."""

    def parts(self) -> list[Plan]:
        """The sweeps that it measures itself."""
        return list(self.sweeps)

    def points(self) -> list[Point]:
        """Those of all sweeps, in their order."""
        return [point for sweep in self.sweeps for point in sweep.points()]
