"""What a plan asks of accelerators, whether they are here or not: memory by server, seconds and dollars.

`params/models/` has the shapes of models whose weights nobody needs to have here: folders that a server can
load with random weights are made of them.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from specbook import paths
from specbook.bench.hardware import PEAKS
from specbook.config import AnyPlan, machines, models, prices
from specbook.config.checkpoint import Checkpoint, read_config, weight_files
from specbook.config.machines import Machine
from specbook.config.schema import REQUESTS_A_SLOT, Arm, Point, Speculation, Target, resolve_model
from specbook.errors import ConfigError
from specbook.records.run import Hardware
from specbook.stats import roofline
from specbook.stats.memory import Memory
from specbook.stats.shape import TargetShape

START_S = 120.0
"""A compiled start of a large model, as others report it; a Neuron compiler may take hours the first time."""
TOKENIZER = "models/pocket-dense"
"""Whose tokenizer a shape is served with: how long a step takes is asked, and any tokens will do."""
OF_A_TOKENIZER = ("tokenizer*", "chat_template*", "special_tokens_map.json")


def lines(plans: Sequence[AnyPlan]) -> list[str]:
    """One for each server of one machine's plans; none where machine.yaml does not say the memory."""
    machine = machines.read(plans[0].hardware)
    if machine.memory_bytes is None:
        return []
    points = {point.key: point for plan in plans for point in plan.points()}
    return [server(machine, *arm) for arm in dict.fromkeys(one.arm for one in points.values())]


def server(machine: Machine, target: Target, speculation: Speculation | None) -> str:
    """`fits` or `DOES NOT FIT`, and the sum that says so."""
    label = f"{target.name}, {Arm(target, speculation)}"
    try:
        memory = memory_of(machine, target, speculation)
    except ConfigError as error:
        return f"DOES NOT FIT: {label}: {error}"
    if memory is None:
        return f"not known: {label}: no model file names {target.model}, and no folder here has its shape"
    room = f"{min(memory.sequences, target.max_num_seqs)} of {target.max_num_seqs} sequences of "
    room += f"{target.max_model_len} tokens"
    return f"{'fits' if memory.sequences else 'DOES NOT FIT'}: {label}: {memory.sum()}: {room}"


def few_requests(points: Iterable[Point]) -> str | None:
    """Which closed loops have too few requests to be of their concurrency, and how many would do."""
    few = {
        (point.chapter, point.load.concurrency): point.load.num_requests
        for point in points
        if point.load.concurrency and point.load.num_requests < point.load.fewest_requests
    }
    if not few:
        return None
    each = (f"{n} requests at concurrency {c} of {chapter}" for (chapter, c), n in few.items())
    enough = ", ".join(f"{c}: {REQUESTS_A_SLOT * c}" for c in sorted({c for _, c in few}))
    return (
        f"{'; '.join(each)}: fewer than {REQUESTS_A_SLOT} a slot. Most of such a window is first wave and "
        f"drain, so the batch is half empty. To fix: set num_requests to {enough} or more, or leave the "
        "concurrency out"
    )


def refuse(plan: AnyPlan, hardware: Hardware) -> None:
    """Raise ConfigError, with the sum, if this machine cannot hold one of the plan's servers.

    Where a target's shape or the devices' memory is not known, nothing is refused.
    """
    here = {"memory_bytes": hardware.gpu_memory_bytes, "devices": hardware.gpu_count or None}
    title = hardware.gpu_name or hardware.id
    machine = machines.read(plan.hardware).model_copy(update={**here, "title": title})
    if machine.memory_bytes is None:
        return
    for target, speculation in dict.fromkeys(point.arm for point in plan.points()):
        memory = memory_of(machine, target, speculation)
        if memory is not None and not memory.sequences:
            raise ConfigError(
                f"{target.name} does not fit {title}: {memory.sum()}. Raise tensor_parallel_size, lower "
                "max_model_len, or serve narrower weights"
            )


def memory_of(machine: Machine, target: Target, speculation: Speculation | None) -> Memory | None:
    """The memory of one rank; None where the target's shape is not known.

    Raises:
        ConfigError: if the machine has too few devices, or their number does not divide the model.
    """
    ranks, sized = target.tensor_parallel_size, TargetShape.of(target, *models.stored(target))
    devices = machine.devices_for(ranks)
    if machine.devices is not None and devices > machine.devices:
        raise ConfigError(
            f"tensor_parallel_size {ranks} takes {devices} devices, and {machine.title} has {machine.devices}"
        )
    if sized is None or machine.rank_memory_bytes is None:
        return None
    if sized.shape.num_heads % ranks:
        raise ConfigError(
            f"tensor_parallel_size {ranks} does not divide {sized.shape.num_heads} attention heads"
        )
    draft_bytes, draft_layers = drafted(target, speculation)
    return Memory.of(
        sized.shape, sized.form, machine.rank_memory_bytes, target.max_model_len, target.max_num_seqs,
        ranks=ranks, draft_bytes=draft_bytes, draft_layers=draft_layers,
        num_speculative_tokens=speculation.num_speculative_tokens if speculation else 0,
        share=target.memory_share,
    )  # fmt: skip


def drafted(target: Target, speculation: Speculation | None) -> tuple[float | None, int]:
    """(bytes of the draft's weights, None where not known; its layers); nothing without a model."""
    if speculation is None or speculation.model is None:
        return 0.0, 0
    if head := models.head_of_shape(speculation.model):
        return head.weight_bytes, head.num_layers
    folder = Path(resolve_model(speculation.model))
    if folder.is_dir():
        layers = Checkpoint(folder.name, read_config(folder)).get("num_hidden_layers") or 1
        return sum(p.stat().st_size for p in weight_files(folder)), layers
    named = models.by_hub_id(target.model)
    head = models.load(named[0]).head_of(speculation.model) if named else None
    return (head.weight_bytes, head.num_layers) if head else (None, 1)


def dollars(machine: Machine, devices: int, hours: float) -> str:
    """What so many hours of so many devices cost at the list price that machine.yaml names."""
    if machine.price is None:
        return "what it costs is not known: machine.yaml names no price"
    price = prices.machine(machine.price)
    bill = price.machines_for(devices) * price.usd_per_hour
    return f"about ${bill * hours:,.0f} at {price.name}, ${bill:,.2f} an hour ({price.date})"


def seconds(machine: Machine, point: Point) -> float | None:
    """Seconds of one point's window and warm-up by the datasheet.

    Answers are at their cap, no draft is accepted, and steps are as fast as the memory. None where the peak
    or the shape is not known.
    """
    peak, load = PEAKS.get(machine.peak or ""), point.load
    sized = TargetShape.of(point.target, *models.stored(point.target))
    if load.request_rate_per_s is not None:
        return (load.num_requests + load.num_warmups) / load.request_rate_per_s
    if peak is None or sized is None or load.concurrency is None:
        return None
    cost = roofline.decode_step(
        sized.shape, load.concurrency, point.traffic.max_tokens, sized.widths.dtype_bytes, peak.bytes_per_s,
        peak.flops_per_s, layer_bytes=sized.widths.layer_bytes,
        tokens_per_sequence=1 + (point.speculation.num_speculative_tokens if point.speculation else 0),
        devices=machine.devices_for(point.target.tensor_parallel_size),
    )  # fmt: skip
    turns = -(-(load.num_requests + load.num_warmups) // load.concurrency)
    return None if cost.memory_s is None else turns * point.traffic.max_tokens * cost.memory_s


def make_shapes(wanted: Iterable[str]) -> list[Path]:
    """Write those of these models, named as plans name them, that are shapes; returns their folders.

    Each has a real model's config.json and a tokenizer of ours.

    Raises:
        ConfigError: if a model file that is asked for, or the tokenizer, cannot be used.
    """
    made = []
    for name in dict.fromkeys(wanted):
        if Path(name).parent != Path(models.SHAPES):
            continue
        folder, config = paths.root() / name, models.shape(Path(name).name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer = [file for part in OF_A_TOKENIZER for file in (paths.root() / TOKENIZER).glob(part)]
        if not tokenizer:
            raise ConfigError(f"shape {name} takes the tokenizer of {TOKENIZER}, which is not there: copy it")
        for file in tokenizer:
            shutil.copy(file, folder)
        made.append(folder)
    return made
