"""The Trainium chapter's chips: the least that a step of the published pair can cost on each, computed."""

from typing import NamedTuple

from specbook.bench.hardware import PEAKS, Peak
from specbook.config import machines, models
from specbook.config.machines import Machine
from specbook.stats import memory, roofline
from specbook.stats.shape import ModelShape

CHIPS = ("trn2", "inf2")
"""Folders of params/ that the chapter compares."""
TARGET, HEAD = "qwen3-32b", "draft-model"
"""The pair of AWS's sample, in `params/models/`."""
BATCH, CONTEXT = 4, 64 + 600 // 2
"""Concurrent requests in AWS's sample, and tokens in a sequence half-way (64 in, 600 out).

Source: https://github.com/aws-neuron/aws-neuron-eks-samples, speculative_decoding_trn2_vllm at a7e41d16.
"""


class Chip(NamedTuple):
    """A machine as it would serve the pair: chips that share the model, and the datasheet's peaks of one."""

    machine: Machine
    devices: int
    peak: Peak


def chips() -> list[Chip]:
    """The two machines with the target as their files serve it."""
    files = [machines.read(name) for name in CHIPS]
    ranks = [next(s.tensor_parallel_size for s in one.serves if s.model == TARGET) for one in files]
    return [Chip(one, one.devices_for(n), PEAKS[one.peak]) for one, n in zip(files, ranks, strict=True)]


def step(chip: Chip, k: int) -> roofline.StepCost:
    """The least that a step of the target over k + 1 tokens a sequence can cost; k = 0: without a draft."""
    shape = ModelShape.from_config(models.config(TARGET))
    return roofline.decode_step(
        shape, BATCH, CONTEXT, memory.KEPT_BYTES, chip.peak.bytes_per_s, chip.peak.flops_per_s,
        tokens_per_sequence=k + 1, devices=chip.devices,
    )  # fmt: skip


def price_of_step(chip: Chip, k: int) -> float:
    """Price of a speculative step in plain steps, by the roofline; the draft is read once a draft token."""
    draft_s = models.load(TARGET).heads[HEAD].weight_bytes / chip.peak.bytes_per_s / chip.devices
    return roofline.speculative_cost(step(chip, 0), step(chip, k), draft_s, k)
