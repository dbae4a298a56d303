"""What a token's cost depends on, one assumption at a time: records and a price -> the bars of a tornado."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from specbook.analysis import token_cost
from specbook.config.chapter import CostPlan
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import cost
from specbook.stats.cost import Bar


def bars(runs: Iterable[RunRecord], chosen: pd.Series, plan: CostPlan) -> list[Bar]:
    """What the bill of the chosen row of `bills` depends on, by reservation: the widest bar first.

    Each bar changes one thing: the utilisation, the way to buy the machine, the traffic, the batch, whether
    one speculates, and what the measurement itself leaves open.
    """
    windows = token_cost.windows(RunSet.of(runs).closed)
    at_load, of_method = (windows[windows[name] == chosen[name]] for name in ("load", "method"))
    of_arm, rate = at_load[at_load["arm"] == chosen["arm"]], chosen["output"]
    own = float(of_arm["output_tokens"].sum() / of_arm["seconds"].sum())
    known = rate.low is not None and rate.high is not None
    factors = {
        "traffic": _relative(_speeds(of_arm, "domain"), own),
        # the fastest arm of the chosen method at each batch, and of each method at the chosen batch
        "batch": _relative(_speeds(of_method, "load", "arm").groupby("load").max(), own),
        "speculation": _relative(_speeds(at_load, "method", "arm").groupby("method").max(), own),
        "measurement": (rate.low / rate.value, rate.high / rate.value) if known else (1.0, 1.0),
    }
    paid = [price.usd_per_hour for price in plan.listed()] or [plan.hourly()]
    ranges = {
        "utilisation": plan.utilisation_range, "price": (min(paid), max(paid)),
        **{name: ends for name, ends in factors.items() if ends[0] < ends[1]},
    }  # fmt: skip
    base = {"utilisation": plan.utilisation, "price": plan.hourly(), **dict.fromkeys(factors, 1.0)}

    def bill(utilisation: float, price: float, **speed: float) -> float:
        tokens_per_s = rate.value * float(np.prod(list(speed.values())))
        return cost.usd_per_million_tokens(tokens_per_s, price, utilisation)

    return cost.tornado(bill, base, {name: ends for name, ends in ranges.items() if ends[0] < ends[1]})


def by_utilisation(tokens_per_s: float, usd_per_hour: float) -> pd.DataFrame:
    """Dollars per million output tokens, `usd_per_million`, at each `utilisation` from 0.1 % to 100 %."""
    used = np.geomspace(0.001, 1, 100)
    paid = [cost.usd_per_million_tokens(tokens_per_s, usd_per_hour, one) for one in used]
    return pd.DataFrame({"utilisation": used, "usd_per_million": paid})


def _relative(speeds: pd.Series, own: float) -> tuple[float, float]:
    return min(1.0, float(speeds.min() / own)), max(1.0, float(speeds.max() / own))


def _speeds(windows: pd.DataFrame, *by: str) -> pd.Series:
    """Tokens per second of each group, over all its windows."""
    return windows.groupby(list(by))[["output_tokens", "seconds"]].sum().eval("output_tokens / seconds")
