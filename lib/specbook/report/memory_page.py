"""What fits where, computed, and one model in several precisions, measured: for `book/memory.md`."""

from collections.abc import Iterable, Iterator

import pandas as pd

from specbook import config, records
from specbook.analysis import engines
from specbook.bench import greedy, provenance
from specbook.config import machines, models, prompt_files
from specbook.config.machines import Machine
from specbook.errors import ConfigError
from specbook.records import published
from specbook.records.run import RunRecord
from specbook.report.provenance_line import credit
from specbook.report.tables import markdown, span
from specbook.report.text import count
from specbook.stats import memory, wilson
from specbook.stats.estimate import Estimate
from specbook.stats.memory import GIB, Memory
from specbook.stats.shape import FORMATS, ModelShape
from specbook.suggestions import listed

REPORTED = "model_load_gib"
"""Metric of published rows that hold what an engine said its loaded model took."""
NARROWED = ("appendix_quantization", "cpu", "full")
"""The plan of what was measured in several precisions."""
PRICE = (
    "The head was trained for the first target. The price of a step is its length over the speed-up, in "
    "decode steps of the same target. Where it rises and the length does not fall, the draft is as good as "
    "before, beside a decode step that has become cheaper."
)
LABELS = {"bf16": "BF16", "fp8": "FP8", "int4-awq": "INT4 AWQ", "mxfp4": "MXFP4"}
LENGTH = 8192
"""Tokens of the sequences that are counted."""
BATCH = 32
"""Sequences in a batch, which decides how many logits a step holds."""


def render() -> str:
    """The answer, a table a machine, what an engine reported, and what was measured on a processor."""
    parts = ["# Can an H200 serve an unquantised 70B?", answer()]
    for hardware, machine in accelerators():
        ranks = "" if machine.ranks_per_device == 1 else f", {machine.ranks_per_device} ranks"
        size = f"{_gb(machine.memory_bytes or 0)} GB a device{ranks} ({machine.memory_source})."
        parts += [f"# {machine.title}", f"`params/{hardware}`: {size}", markdown(table(machine))]
    parts += ["# What an engine reported, in GiB", reports()]
    parts += ["# BF16 against INT8 and INT4 on a processor", measured()]
    return "\n\n".join(parts) + "\n"


def accelerators() -> Iterator[tuple[str, Machine]]:
    """Every hardware whose machine.yaml says its memory."""
    for hardware in config.hardwares():
        machine = machines.read(hardware)
        if machine.memory_bytes is not None:
            yield hardware, machine


def pairs() -> Iterator[tuple[str, str]]:
    """Every model in every format that its file names weights of on a hub: others fit anywhere."""
    for name in models.names():
        yield from ((name, form) for form, one in models.load(name).weights.items() if one.pip is None)


def shape(name: str) -> ModelShape:
    """The shape of a model of `params/models/`.

    Raises:
        ConfigError: naming its config.json, if a size is missing there, or its architecture is not counted.
    """
    sizes = models.config(name)
    try:
        return ModelShape.from_config(sizes)
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


def table(machine: Machine) -> pd.DataFrame:
    """A row a model and format: on the fewest devices that hold it, what is left and how much that holds."""
    rows = []
    for name, form in pairs():
        devices = fewest_devices(machine, name, form)
        one = rank(machine, name, form, devices or machine.devices or 1)
        rows.append(
            {"model": models.load(name).title, "weights": LABELS[form],
             "weights, GB": _gb(weight_bytes(name, form)),
             "devices": devices or "none", "left a rank, GB": _gb(one.kv_bytes),
             f"sequences of {LENGTH:,} tokens": one.sequences}
        )  # fmt: skip
    return pd.DataFrame(rows)


def answer() -> str:
    """The sum of Llama 3.3 70B in BF16 on one H200, and on two."""
    machine = machines.read("h200")
    one, two = (rank(machine, "llama-3.3-70b", "bf16", devices) for devices in (1, 2))
    narrow = rank(machine, "llama-3.3-70b", "fp8", 1)
    whole_card = count(one.model_copy(update={"share": 1.0}).sequences, "sequence")
    no = "No, not at the share of the card that the engine takes by itself"
    return (
        f"**{'Yes' if one.sequences else no}.** In GB: {one.sum()}. With all of the card, which leaves the "
        f"driver nothing, {whole_card} of {LENGTH:,} tokens would fit. On two cards {two.sequences} do: "
        f"{two.sum()} on each. In FP8 one card holds {narrow.sequences}."
    )


def reports() -> str:
    """Published rows of an engine's own report, beside the sum."""
    rows = []
    for row in published.load():
        name = row.target_model.lower()
        if row.metric == REPORTED and row.number is not None and name in models.names():
            (form,) = models.load(name).weights
            sums = [weight_bytes(name, form, padded) / GIB for padded in (False, True)]
            rows.append(
                {"model": models.load(name).title, "hardware": row.hardware, "engine": row.system,
                 "reported": f"{row.number:g}", "checkpoint": f"{sums[0]:.1f}",
                 "as loaded": f"{sums[1]:.1f}", "source": row.source}
            )  # fmt: skip
    return markdown(pd.DataFrame(rows))


def measured() -> str:
    """The pocket target in every precision that has records, and which has none."""
    wanted = config.load(*NARROWED)
    by_target = {sweep.target.name: records.recorded(sweep) for sweep in wanted.parts()}
    lacking = listed(name for name, own in by_target.items() if not own)
    runs = [run for own in by_target.values() for run in own]
    missing = (
        f"**Not measured yet:** there is no record of {lacking}. `specbook run {wanted.chapter}` makes the "
        "narrow copies and measures them."
    )
    if not by_target[wanted.parts()[0].target.name]:  # nothing to compare the others with
        return missing
    table = engines.by_target(runs)
    accuracies = {name: _share(accuracy(own)) for name, own in by_target.items()}
    rows = [
        {"load": row.load, "target": row.target, "tokens/s": f"{row.tokens_per_s:.0f}",
         "over the first": span(row.against), "EAGLE-3": span(row.speedup),
         "length, tokens/step": "-" if row.length is None else f"{row.length:.2f}",
         "price of a step":
             "-" if None in (row.length, row.speedup) else f"{row.length / row.speedup.value:.1f}",
         "right answers": accuracies[row.target]}
        for row in table.itertuples()
    ]  # fmt: skip
    return "\n\n".join([PRICE, markdown(pd.DataFrame(rows)), credit(runs), *[missing] * bool(lacking)])


def accuracy(runs: Iterable[RunRecord]) -> Estimate | None:
    """The share of prompts whose answer without speculation passes their own check, each prompt once; None
    where no stored answer is to a prompt that says what is right.
    """
    passed: dict[tuple[str, str], bool] = {}
    for run in (run for run in runs if run.point.speculation is None):
        traffic, answers = run.point.traffic, records.requests(run)
        if run.provenance.prompts_sha256 == provenance.prompts_sha256(traffic):
            rows = {one.id: one.row for one in prompt_files.for_traffic(traffic) if greedy.knows(one.row)}
            good = answers[answers["error"].isna() | (answers["error"] == "")]
            for name, text in good[["prompt_id", "text"]].itertuples(index=False):
                if name in rows:
                    passed.setdefault((traffic.domain, name), greedy.check(rows[name], text))
    return wilson(sum(passed.values()), len(passed)) if passed else None


def _share(share: Estimate | None) -> str:
    if share is None:
        return "no check"
    return f"{share.through(lambda of: 100 * of).span(' %', 1)}, n={share.counted}"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f}"
