"""What fits where, computed, and one model in several precisions, measured: for `book/memory.md`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from specbook import config, records
from specbook.analysis import quantization
from specbook.bench import answer_checkers, provenance
from specbook.config import machines, models, prompt_files
from specbook.config.machines import MachineFile
from specbook.records import published
from specbook.records.run import RunRecord
from specbook.report import executed_pages
from specbook.report.figures import style
from specbook.report.tables import markdown
from specbook.report.text.phrases import listed, percent
from specbook.stats import memory, wilson
from specbook.stats.estimate import Estimate
from specbook.stats.memory import FORMATS, GIB, Memory
from specbook.stats.shape import ModelShape

LENGTH = 8192
"""Tokens of the sequences that are counted."""
BATCH = 32
"""Sequences in a batch, which decides how many logits a step holds."""
REPORTED = "model_load_gib"
"""Metric of published rows that hold what an engine said its loaded model took."""
NARROWED = ("appendix_quantization", "cpu", "full")
"""The plan of what was measured in several precisions."""
LABELS = {"bf16": "BF16", "fp8": "FP8", "int4-awq": "INT4 AWQ", "mxfp4": "MXFP4"}


def write(folder: Path) -> Path:
    """Write `memory.md` into `folder`."""
    return executed_pages.put(folder, "memory.md", render())


def render() -> str:
    """The answer, a table a machine, what an engine reported, and what was measured on a processor."""
    parts = ["# Can an H200 serve an unquantised 70B?", answer()]
    for hardware, machine in accelerators():
        rank = "" if machine.ranks_per_device == 1 else f", {machine.ranks_per_device} ranks"
        size = f"{_gb(machine.memory_bytes or 0)} GB a device{rank} ({machine.memory_source})."
        parts += [f"# {machine.title}", f"`params/{hardware}`: {size}", markdown(table(machine))]
    parts += [
        "# What an engine reported, in GiB",
        reports(),
        "# BF16 against INT8 and INT4 on a processor",
        measured(),
    ]
    return "\n\n".join(parts) + "\n"


def accelerators() -> Iterator[tuple[str, MachineFile]]:
    """Every hardware whose machine.yaml says its memory."""
    for hardware in config.hardwares():
        machine = machines.read(hardware, MachineFile)
        if machine.memory_bytes is not None:
            yield hardware, machine


def pairs() -> Iterator[tuple[str, str]]:
    """Every model in every format that its file names weights of."""
    for name in models.names():
        yield from ((name, form) for form in models.load(name).weights)


def on(machine: MachineFile, name: str, form: str, devices: int) -> Memory:
    """The sum of one rank, the model shared by so many whole devices."""
    shape = ModelShape.from_config(models.config(name))
    return Memory.of(
        shape, FORMATS[form], machine.rank_memory_bytes or 0.0, LENGTH, BATCH,
        ranks=devices * machine.ranks_per_device,
    )  # fmt: skip


def fewest(machine: MachineFile, name: str, form: str) -> int | None:
    """The least power of two of devices on which a sequence fits; None if none of a machine's does."""
    counts = (n for n in (1, 2, 4, 8, 16) if n <= (machine.devices or 1))
    return next((n for n in counts if _fits(machine, name, form, n)), None)


def _fits(machine: MachineFile, name: str, form: str, devices: int) -> bool:
    return on(machine, name, form, devices).sequences > 0


def table(machine: MachineFile) -> pd.DataFrame:
    """A row a model and format: on the fewest devices that hold it, what is left and how much that holds."""
    rows = []
    for name, form in pairs():
        devices = fewest(machine, name, form)
        found = on(machine, name, form, devices or machine.devices or 1)
        weights = memory.weight_bytes(ModelShape.from_config(models.config(name)), FORMATS[form])
        rows.append(
            {
                "model": models.load(name).title,
                "weights": LABELS[form],
                "weights, GB": _gb(weights),
                "devices": devices or "none",
                "left a rank, GB": _gb(found.kv_bytes),
                f"sequences of {LENGTH:,} tokens": found.sequences,
            }
        )
    return pd.DataFrame(rows)


def answer() -> str:
    """The sum of Llama 3.3 70B in BF16 on one H200, and on two."""
    machine = machines.read("h200", MachineFile)
    one, two = (on(machine, "llama-3.3-70b", "bf16", devices) for devices in (1, 2))
    short = one.model_copy(update={"share": 1.0})
    said = "No, not at the share of the card that the engine takes by itself" if not one.sequences else "Yes"
    return (
        f"**{said}.** {one.sum()}. With all of the card, which leaves the driver nothing, "
        f"{short.sequences} sequence{'' if short.sequences == 1 else 's'} of {LENGTH:,} tokens would fit. "
        f"On two cards {two.sequences} do: {two.sum()} on each. In FP8 one card holds "
        f"{on(machine, 'llama-3.3-70b', 'fp8', 1).sequences}."
    )


def reports() -> str:
    """Published rows of an engine's own report, beside the sum."""
    rows = []
    for row in published.load():
        name = row.target_model.lower()
        if row.metric == REPORTED and row.number is not None and name in models.names():
            (form,) = models.load(name).weights
            shape = ModelShape.from_config(models.config(name))
            sums = [memory.weight_bytes(shape, FORMATS[form], padded) / GIB for padded in (False, True)]
            rows.append(
                {
                    "model": models.load(name).title,
                    "hardware": row.hardware,
                    "engine": row.system,
                    "reported": f"{row.number:g}",
                    "checkpoint": f"{sums[0]:.1f}",
                    "as loaded": f"{sums[1]:.1f}",
                    "source": row.source,
                }
            )
    return markdown(pd.DataFrame(rows))


def measured() -> str:
    """The pocket target in every precision that has records, and which has none."""
    wanted = config.load(*NARROWED)
    held = {sweep.target.name: records.recorded(sweep) for sweep in wanted.parts()}
    lacking, runs = (
        listed(name for name in held if not held[name]),
        [run for one in held.values() for run in one],
    )
    missing = (
        f"**Not measured yet:** there is no record of {lacking}. `specbook run {wanted.chapter}` makes the "
        "narrow copies and measures them."
    )
    if not held[wanted.parts()[0].target.name]:  # nothing to hold the others against
        return missing
    table, answered = quantization.table(runs), {name: right(one) for name, one in held.items()}
    rows = [
        {
            "load": row.load,
            "target": row.target,
            "tokens/s": f"{row.tokens_per_s:.0f}",
            "over the first": _span(row.against),
            "EAGLE-3 brings": _span(row.speedup),
            "length, tokens/step": "-" if row.length is None else f"{row.length:.2f}",
            "right answers": _share(answered[row.target]),
        }
        for row in table.itertuples()
    ]
    parts = [hurt(table), markdown(pd.DataFrame(rows)), style.credit(runs), *[missing] * bool(lacking)]
    return "\n\n".join(filter(None, parts))


def hurt(table: pd.DataFrame) -> str:
    """Sentences on the draft's length on each target, and what a step with it costs there.

    The cost is in decode steps of that target, which is length over speed-up. Made from `narrow.table`, at
    its first load; "" where one drafted nothing.
    """
    rows = table[table["load"] == table["load"].iloc[0]]
    if rows[["length", "speedup"]].isna().any(axis=None):
        return ""
    first, *others = rows["length"]
    apart = max((abs(other / first - 1) for other in others), default=0.0)
    lengths, prices = (
        listed(
            f"{form.format(number)} on {target}"
            for number, target in zip(numbers, rows["target"], strict=True)
        )
        for form, numbers in (
            ("{:.2f}", rows["length"]),
            ("{:.1f}", rows["length"] / [one.value for one in rows["speedup"]]),
        )
    )
    return (
        f"**Does quantizing the target hurt the draft?** The head was trained for {rows['target'].iloc[0]}. "
        f"At {rows['load'].iloc[0]} its tokens a step are {lengths}: {percent(apart, 1)} apart at most. What "
        f"it brings is that length over the price of a step, in the target's own decode steps: {prices}. "
        "Where the price rises and the length does not fall, the draft guesses as before, beside a decode "
        "step that has become cheaper."
    )


def right(runs: Iterable[RunRecord]) -> Estimate | None:
    """The share of prompts whose answer without speculation passes their own check, each prompt once; None
    where no stored answer is to a prompt that says what is right.
    """
    found: dict[tuple[str, str], bool] = {}
    for run in (run for run in runs if run.point.speculation is None):
        traffic, answers = run.point.traffic, records.requests(run)
        if run.provenance.prompts_sha256 == provenance.prompts_sha256(traffic):
            rows = {one.id: one.row for one in prompt_files.of(traffic) if answer_checkers.knows(one.row)}
            good = answers[answers["error"].isna() | (answers["error"] == "")]
            for name, text in good[["prompt_id", "text"]].itertuples(index=False):
                if name in rows:
                    found.setdefault((traffic.domain, name), answer_checkers.check(rows[name], text))
    return wilson(sum(found.values()), len(found)) if found else None


def _share(found: Estimate | None) -> str:
    if found is None:
        return "no check"
    low, high = (f"{100 * end:.1f}" for end in (found.low or 0.0, found.high or 0.0))
    return f"{100 * found.value:.1f} % [{low}, {high}], n={found.counted}"


def _span(estimate: Estimate | None) -> str:
    return "-" if estimate is None else estimate.span("×")


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f}"
