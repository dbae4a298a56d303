"""A chapter that measures nothing itself: it puts a price on what other chapters measured."""

from collections.abc import Collection
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from specbook.config import prices
from specbook.config.plan import Plan
from specbook.config.prices import Price
from specbook.config.schema import Frozen, Point
from specbook.errors import ConfigError


class Objective(Frozen):
    """A service-level objective: what p99 of both clocks has to keep."""

    model_config = ConfigDict(allow_inf_nan=False)

    ttft_s: float = Field(gt=0)
    tpot_s: float = Field(gt=0)


class CostPlan(Frozen):
    """What is priced, at which price, and what an answer owes its reader to count."""

    model_config = ConfigDict(allow_inf_nan=False)

    chapter: str
    hardware: str
    """Folder under params/."""
    group: str
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
    """Entries of `params/prices.yaml` that the cost is held against."""

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

    def parts(self) -> list[Plan]:
        """None, and so no points: see `of` for what is measured."""
        return []

    def points(self) -> list[Point]:
        """None."""
        return []

    def models(self) -> list[str]:
        """None."""
        return []

    def without(self, models: Collection[str]) -> Self:
        """The plan as it is: it serves nothing."""
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
        """Refuse a price that is not listed now, not when the chapter is drawn.

        Raises:
            ConfigError: naming the near match.
        """
        self.hourly()
        unpriced = [name for name in self.apis if not prices.api(name).verified]
        if unpriced:
            raise ConfigError(f"no verified price of {', '.join(unpriced)}: leave it out of apis")
