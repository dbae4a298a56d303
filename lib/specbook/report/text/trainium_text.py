"""The Trainium chapter's tables and sentences: measured here, published by others, and computed."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from specbook.analysis import traffic
from specbook.analysis.intervals import side
from specbook.bench.hardware import PEAKS, Peak
from specbook.config import machines, models, prices
from specbook.config.machines import MachineFile, Served
from specbook.records import published
from specbook.records.published import PublishedRow
from specbook.records.run import RunRecord
from specbook.report.text import answers_text, milliseconds
from specbook.stats import memory, roofline
from specbook.stats.estimate import Estimate
from specbook.stats.shape import ModelShape
from specbook.suggestions import listed

CHIPS = ("trn2", "inf2")
"""Folders of params/ that the chapter compares."""
TARGET, HEAD = "qwen3-32b", "draft-model"
"""The pair of AWS's sample, in `params/models/`."""
BATCH, CONTEXT = 4, 64 + 600 // 2
"""Concurrent requests in AWS's sample, and tokens in a sequence half-way (64 in, 600 out).

Source: https://github.com/aws-neuron/aws-neuron-eks-samples, speculative_decoding_trn2_vllm at a7e41d16.
"""


class Chip(NamedTuple):
    """A machine as it would serve the pair."""

    machine: MachineFile
    served: Served

    @property
    def devices(self) -> int:
        """Chips that share the model."""
        return self.machine.devices_for(self.served.tensor_parallel_size)


def answer(runs: Sequence[RunRecord], best: pd.DataFrame) -> str:
    """Answer on what structured and open-ended prompts gain, and whether a Neuron chip said so.

    Made from `traffic.best`.
    """
    each = [
        f"at {one['load']} the speed-up of {one['method']} is {_gain(one[traffic.STRUCTURED])} on structured "
        f"prompts and {_gain(one[traffic.OPEN])} on open-ended ones"
        for one in traffic.contrast(best)
    ]
    measured = any(run.hardware.kind == "neuron" for run in runs)
    gains = f"Each at its own best K of those measured, {'; '.join(each)}." if each else answers_text.NO_PAIR
    where = "" if measured else " **Not measured yet on a Neuron chip:** the machine is the one above."
    return f"**Answer.** {gains}{where}"


def _gain(row: pd.Series) -> str:
    return f"{row['estimate'].span('×')} at K={row['num_speculative_tokens']}"


def gains(best: pd.DataFrame) -> pd.DataFrame:
    """Table of speed-ups at the best K, one row for each of `traffic.best`."""
    columns = {
        "load": best["load"], "method": best["method"], "prompts": best["traffic"],
        "domains": best["domains"].map(listed), "best K": best["num_speculative_tokens"],
        "speed-up": [one.span("×") for one in best["estimate"]],
        "n": [one.counted for one in best["estimate"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "method", "prompts"])


def contrasted(best: pd.DataFrame) -> str:
    """Sentences on how far apart the two kinds of prompts are, and which of them loses (`traffic.best`)."""
    lines = []
    for one in traffic.contrast(best):
        kinds = (traffic.STRUCTURED, traffic.OPEN)
        lost = [name for name in kinds if side(one[name]["estimate"]) == "below"]
        slower = f"; slower than no speculation beyond the interval: {listed(lost)}" if lost else ""
        apart = "cannot be compared with" if one["ratio"] is None else f"is {one['ratio'].span(' times')}"
        lines.append(
            f"- **{one['load']}**, {one['method']}: the speed-up of structured prompts {apart} that of "
            f"open-ended ones{slower}."
        )
    return "\n".join(lines) or "Only one kind of prompts was measured beside a baseline: no contrast."


def clocks(table: pd.DataFrame) -> pd.DataFrame:
    """Table of medians in ms, and the change with its interval, a row for each of `traffic.first_token`."""
    columns = {
        "load": table["load"], "method": table["method"],
        "clock": table["metric"].str.removesuffix("_s").str.upper(),
        "without, ms": (1e3 * table["baseline_s"]).map("{:.1f}".format),
        "with, ms": (1e3 * table["arm_s"]).map("{:.1f}".format),
        "change, ms": [_milliseconds(one) for one in table["estimate"]],
        "verdict": table["verdict"],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "method", "clock"])


def _milliseconds(seconds: Estimate) -> str:
    ends = {name: getattr(seconds, name) for name in ("value", "low", "high")}
    return seconds.model_copy(
        update={name: None if end is None else 1e3 * end for name, end in ends.items()}
    ).span(digits=1)


def published_rows() -> list[PublishedRow]:
    """Published rows of Trainium and Inferentia, prices left out."""
    return [row for row in published.load() if row.hardware[:3] in ("trn", "inf") and "usd" not in row.metric]


def others() -> pd.DataFrame:
    """`published_rows` as a page shows them; their sources are on the page of published numbers."""
    rows = [
        {"target": row.target_model, "draft": row.draft, "hardware": row.hardware, "prompts": row.dataset,
         "K": row.num_speculative_tokens, "published": row.value,
         "metric": row.metric.replace("tok_s", "tokens/s").replace("_", " ")}
        for row in published_rows()
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index(["target", "draft"])


def chips() -> list[Chip]:
    """The two machines with the target as their files serve it."""
    files = [machines.read(name, MachineFile) for name in CHIPS]
    return [Chip(one, next(s for s in one.serves if s.model == TARGET)) for one in files]


def side_by_side() -> pd.DataFrame:
    """Both chips: memory, bandwidth, how many the target takes, its least step, and what an hour costs."""
    rows = []
    for chip in chips():
        machine, price, peak = chip.machine, prices.machine(chip.machine.price or ""), _peak(chip)
        rows.append(
            {"chip": machine.title, "memory, GB": f"{(machine.memory_bytes or 0) / 1e9:.0f}",
             "peak, TB/s": f"{peak.bytes_per_s / 1e12:.2f}", "chips that share it": chip.devices,
             "least step": milliseconds(step(chip, 0).least_s or 0.0),
             "$ an hour": f"{price.usd_per_hour:.2f} ({price.name}, {price.accelerators} chips)"}
        )  # fmt: skip
    return pd.DataFrame(rows).set_index("chip")


def _peak(chip: Chip) -> Peak:
    return PEAKS[chip.machine.peak or ""]


def step(chip: Chip, k: int) -> roofline.StepCost:
    """The least that a step of the target over k + 1 tokens a sequence can cost; k = 0: without a draft."""
    peak, shape = _peak(chip), ModelShape.from_config(models.config(TARGET))
    return roofline.decode_step(
        shape, BATCH, CONTEXT, memory.KEPT_BYTES, peak.bytes_per_s, peak.flops_per_s,
        tokens_per_sequence=k + 1, devices=chip.devices,
    )  # fmt: skip


def price_of_step(chip: Chip, k: int) -> float:
    """Price of a speculative step in plain steps, by the roofline.

    The draft's files are read once a draft token.
    """
    draft_bytes = models.load(TARGET).heads[HEAD].weight_bytes or 0
    draft_s = draft_bytes / _peak(chip).bytes_per_s / chip.devices
    return roofline.speculative_cost(step(chip, 0), step(chip, k), draft_s, k) or float("nan")


def predicted(lengths: pd.DataFrame) -> pd.DataFrame:
    """Computed: on each chip and at each K the price of a step, and the speed-up with these lengths.

    Args:
        lengths: of `traffic.lengths`, of one method.
    """
    rows = []
    for chip in chips():
        for k, cell in lengths.groupby("num_speculative_tokens"):
            cost = price_of_step(chip, int(k))
            each = {
                f"{row.traffic}: length → speed-up": f"{row.length:.2f} → {row.length / cost:.2f}×"
                for row in cell.itertuples()
            }
            head = {"chip": chip.machine.title, "K": int(k), "a step costs": f"{cost:.2f} steps"}
            rows.append(head | each)
    return pd.DataFrame(rows).set_index(["chip", "K"]) if rows else pd.DataFrame()
