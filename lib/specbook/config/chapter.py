"""Chapters that are no single sweep: several sweeps and experiments of other kinds, or a price on others."""

from collections import Counter
from collections.abc import Collection
from typing import Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from specbook.config import prices
from specbook.config.plan import AnyPlan, Plan
from specbook.config.prices import Price
from specbook.config.schema import Frozen, digest
from specbook.errors import ConfigError


class Experiment(Frozen):
    """Something to measure that is no sweep of a server: a training run, scaling, a router under drift."""

    name: str
    """What `specbook.bench.experiments` registers."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Its own; checked before anything is measured."""

    @property
    def models(self) -> list[str]:
        """The models that it serves and drafts with."""
        given = [self.parameters.get(role) for role in ("target", "speculation", "instead")]
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


class Chapter(AnyPlan):
    """What a chapter measures where one sweep is not it. Its groups hold `sweeps` and `experiments`."""

    sweeps: tuple[Plan, ...] = ()
    """Each has the keys of a group with one sweep, and its own target."""
    experiments: tuple[Experiment, ...] = ()
    context: str | None = None
    """Kubeconfig context for experiments on a cluster; None: see `specbook.deploy.kubectl.selected`."""

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        arms = [point for point in self.points() if point.speculation]  # baselines may be shared
        parts = [*arms, *self.experiments]
        keys = Counter(part.key for part in parts)
        if twice := [part for part in parts if keys[part.key] > 1]:
            one = twice[0]
            what = one.title if isinstance(one, Experiment) else f"{one.arm} at {one.load.label}"
            raise ValueError(f"two sweeps or experiments ask for the same thing, {what}: name it once")
        return self

    def parts(self) -> list[Plan]:
        """The sweeps."""
        return list(self.sweeps)

    def models(self) -> list[str]:
        """Models of its sweeps and of its experiments, once."""
        parts = [*(one.models() for one in self.sweeps), *(one.models for one in self.experiments)]
        return list(dict.fromkeys(name for part in parts for name in part))

    def without(self, models: Collection[str]) -> Self:
        """The chapter less its sweeps, drafts and experiments of these models."""
        sweeps = tuple(one.without(models) for one in self.sweeps if one.target.model not in models)
        asked = tuple(one for one in self.experiments if not set(models).intersection(one.models))
        return self.model_copy(update={"sweeps": sweeps, "experiments": asked})


class Objective(Frozen):
    """A service-level objective: what p99 of both clocks has to keep."""

    model_config = ConfigDict(allow_inf_nan=False)

    ttft_s: float = Field(gt=0)
    tpot_s: float = Field(gt=0)


class CostPlan(AnyPlan):
    """A chapter that measures nothing itself: it puts a price on what other chapters measured."""

    model_config = ConfigDict(allow_inf_nan=False)

    of: tuple[str, ...] = Field(min_length=1)
    """Chapters whose records are priced, those of the same hardware and group."""
    price: str | None = None
    """Entry of `params/prices.yaml`: the machine's, or that of a cloud machine of its size."""
    usd_per_hour: float | None = Field(default=None, gt=0)
    """The reader's own price; it goes before `price`."""
    devices: int = Field(default=1, ge=1)
    """That serve the model: as many machines of `price` are paid for as hold them."""
    utilisation: float = Field(gt=0, le=1)
    """Share of paid time in which the server is busy."""
    utilisation_range: tuple[float, float]
    """Between which it may lie."""
    slos: dict[str, Objective] = Field(min_length=1)
    """By name, the strictest first: that one decides which rate is priced."""
    apis: tuple[str, ...] = ()
    """Entries of `params/prices.yaml` that the cost is compared with."""

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if self.price is None and self.usd_per_hour is None:
            raise ValueError("give `price`, an entry of params/prices.yaml, or `usd_per_hour`, your own")
        low, high = self.utilisation_range
        if not 0 < low <= self.utilisation <= high <= 1:
            raise ValueError(
                f"utilisation {self.utilisation} lies outside its range {low} to {high}, or that one outside "
                "(0, 1]"
            )
        return self

    def hourly(self) -> float:
        """Dollars an hour; ConfigError, naming the near match, if `price` is no entry of the price list."""
        return self.usd_per_hour or self.bill(prices.machine(self.price or ""))

    def bill(self, price: Price) -> float:
        """Dollars an hour of as many machines of this price as hold the devices."""
        return price.machines_for(self.devices) * price.usd_per_hour

    def listed(self) -> list[Price]:
        """All listed prices of this plan's device, `price` among them; none for the reader's own price."""
        if self.usd_per_hour is not None or self.price is None:
            return []
        device = prices.machine(self.price).device
        return [one for one in prices.load().machines if one.device == device]

    def check(self) -> None:
        """Raise ConfigError, naming the near match, for an unlisted price: now, not when it is drawn."""
        self.hourly()
        if unpriced := [name for name in self.apis if not prices.api(name).verified]:
            raise ConfigError(f"no verified price of {', '.join(unpriced)}: leave it out of apis")
