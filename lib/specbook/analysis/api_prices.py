"""What tokens cost elsewhere: hosted APIs for the same text, and published rates on rented machines.

List prices and rates are `published`; what is made of them here is `computed`.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from specbook.analysis import summaries
from specbook.config import models, prices
from specbook.config.prices import ApiPrice, Price
from specbook.config.schema import Target
from specbook.records.published import PublishedRow
from specbook.records.run import RunRecord
from specbook.stats import cost

OWN = "own count"
SPEED = ["shape", "device", "label", "concurrency", "tokens_per_s", "input_per_output"]
RATES = (
    "shape", "label", "concurrency", "tokens_per_s", "machine", "usd_per_hour", "usd_per_million", "api",
    "api_usd_per_million", "break_even_utilisation",
)  # fmt: skip
COLUMNS = (
    "name", "host", "model", "same_model", "date", "source", "note", "counted_by", "tokens_per_own",
    "usd_per_million",
)  # fmt: skip


def hosts(target: Target) -> tuple[str, ...]:
    """Entries of `params/prices.yaml` that serve the target's own weights; none where nobody hosts them."""
    known = models.by_hub_id(target.model)
    return models.load(known[0]).apis if known else ()


def apis(names: Iterable[str], counted: Mapping[str, float], same: Collection[str] = ()) -> pd.DataFrame:
    """What each API would have billed for this text, per million output tokens of *this* model.

    `names` are entries of `params/prices.yaml`, `same` those of them that serve this model, its `hosts`; all
    others answer with another one. The text is `counted` by `token_cost.characters`.

    Columns: COLUMNS, of which counted_by says how its tokens were counted (its tokenizer is not at hand, so
        by the maker's published rule, or else by this model's own count), and tokens_per_own has its output
        tokens per one of ours.
    """
    rows = [{**_bill(prices.api(name), counted), "same_model": name in same} for name in names]
    return summaries.frame(rows, COLUMNS)


def _bill(api: ApiPrice, counted: Mapping[str, float]) -> dict[str, object]:
    read, written = counted["input_tokens"], counted["output_tokens"]
    how, own = OWN, written
    if api.characters_per_token is not None:
        read, written = (
            counted[f"{side}_characters"] / api.characters_per_token for side in ("input", "output")
        )
        how = f"{api.characters_per_token:g} characters each"
    whole = cost.api_usd_per_million_output(
        api.input_usd_per_million or 0.0, api.output_usd_per_million or 0.0, read / written
    )
    return {
        "name": api.name, "host": api.host, "model": api.model, "date": api.date, "source": api.source,
        "note": api.note, "counted_by": how, "tokens_per_own": written / own,
        "usd_per_million": whole * written / own,
    }  # fmt: skip


def rented(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """Published rates on one rented GPU, priced by the hour and compared with hosts of the same model.

    Only rows whose rate is a plain number, whose machine has a listed on-demand price, and whose model
    somebody hosts. Columns: model, draft, batch, hardware, tokens_per_s, machine, usd_per_hour,
    usd_per_million (always busy), api, api_usd_per_million (the cheapest host's output price),
    break_even_utilisation, source.
    """
    listed = prices.load()
    hosts = [api for api in listed.apis if api.output_usd_per_million is not None]
    on_demand, rates = _on_demand(listed.machines), []
    for row in rows:
        price = on_demand.get(row.hardware)
        same = [api for api in hosts if api.model.casefold() == row.target_model.casefold()]
        if row.metric == "output_tok_s" and row.number and price and same:
            api = min(same, key=_output)
            published = {
                "model": row.target_model, "draft": row.draft, "batch": row.batch_or_concurrency,
                "hardware": row.hardware, "source": row.source,
            }  # fmt: skip
            rates.append(published | _compared(row.number, price, api.name, _output(api)))
    return pd.DataFrame(rates)


def shapes(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Speeds of shapes on one accelerator, priced by the hour and compared with hosts of the same model.

    Only shapes that have a host, on accelerators that have a listed on-demand price. Columns: RATES, of which
    tokens_per_s is while every slot was taken (a geometric mean over restarts), usd_per_million is always
    busy, and api_usd_per_million the cheapest host's whole bill of the same tokens, prompts included.
    """
    on_demand, rates = _on_demand(prices.load().machines), []
    speeds = pd.DataFrame([_speed(run) for run in runs], columns=SPEED)
    for (shape, device, label, batch), own in speeds.groupby(SPEED[:4], sort=False):
        price, host = on_demand.get(f"1x{device}"), _cheapest(shape, own["input_per_output"].mean())
        if price is None or host is None:
            continue
        speed = float(np.exp(np.log(own["tokens_per_s"]).mean()))
        of_shape = {"shape": shape, "label": label, "concurrency": batch}
        rates.append(of_shape | _compared(speed, price, *host))
    return summaries.frame(rates, RATES)


def _speed(run: RunRecord) -> tuple[object, ...]:
    """The values of SPEED."""
    assert run.measurement is not None
    whole, counted = run.measurement.throughput, run.measurement.server
    steady = run.measurement.steady_output_tokens_per_s
    device = (run.hardware.gpu_name or "").removeprefix("NVIDIA ").partition(" ")[0]
    return (
        run.point.target.name, device, summaries.label(run), run.point.load.concurrency,
        steady or whole.output_tokens_per_s, counted.prompt_tokens / counted.generation_tokens,
    )  # fmt: skip


def _cheapest(shape: str, input_per_output: float) -> tuple[str, float] | None:
    """The cheapest host of a shape's model, and its dollars per million output tokens, prompts included."""
    model = models.of_shape(shape)
    same = {prices.api(name).model for name in model.apis} if model else set()
    bills = {
        api.name: cost.api_usd_per_million_output(
            api.input_usd_per_million or 0.0, _output(api), input_per_output
        )
        for api in prices.load().apis
        if api.verified and api.model in same
    }
    return min(bills.items(), key=lambda item: item[1], default=None)


def _output(api: ApiPrice) -> float:
    return api.output_usd_per_million or 0.0


def _on_demand(machines: Iterable[Price]) -> dict[str, Price]:
    """The cheapest on-demand price of one device, by the device as rows name it: `1xH100`."""
    cheapest_first = sorted(machines, key=lambda price: price.usd_per_hour)
    return {
        f"1x{price.device}": price
        for price in reversed(cheapest_first)  # the last one of a device stays
        if price.purchase == "on demand" and price.accelerators == 1
    }


def _compared(tokens_per_s: float, price: Price, api: str, bill: float) -> dict[str, object]:
    """A rented machine that is always busy beside a host's bill, in dollars per million output tokens."""
    return {
        "tokens_per_s": tokens_per_s, "machine": price.name, "usd_per_hour": price.usd_per_hour,
        "usd_per_million": cost.usd_per_million_tokens(tokens_per_s, price.usd_per_hour),
        "api": api, "api_usd_per_million": bill,
        "break_even_utilisation": cost.break_even_utilisation(tokens_per_s, price.usd_per_hour, bill),
    }  # fmt: skip


def estimated(table: pd.DataFrame, counted: Mapping[str, float]) -> float:
    """Share of the prompts' characters that is an estimate (`token_cost.characters`); 0 if no bill of `apis`
    needs their length.
    """
    needed = (table["counted_by"] != OWN).any()
    return counted["guessed_characters"] / (counted["input_characters"] or 1) if needed else 0.0
