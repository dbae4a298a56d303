"""What this machine is, and how fast it could go at most. What is not known is None, never a guess."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from specbook import engine
from specbook.errors import EngineError
from specbook.records.run import Hardware

MIB = 2**20
MACHINE_ID, BOOT_ID = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
MIG = re.compile(r"^\s+MIG (\S+)\s+Device", re.MULTILINE)
"""A slice of a GPU, as `nvidia-smi -L` lists it."""


class Devices(NamedTuple):
    """The accelerators of this machine."""

    kind: str
    """`cuda`, `rocm` or `neuron`."""
    name: str
    count: int
    memory_bytes: int | None
    """Memory of each of them; None where the driver does not report it."""


class Peak(NamedTuple):
    """What the maker says one device can do: dense bf16, no sparsity."""

    flops_per_s: float
    bytes_per_s: float
    source: str


_H100 = "https://www.nvidia.com/en-us/data-center/h100/"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_A100 = "https://www.nvidia.com/en-us/data-center/a100/"
_AMD = "https://www.amd.com/en/products/accelerators/instinct/mi300/"
_NEURON = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/arch/neuron-hardware/"

# Keys are the names nvidia-smi or rocm-smi prints, or the Neuron chip's; a name that is not here has no peak.
# NVIDIA's pages list bf16 with sparsity; dense is half of it.
PEAKS = {
    "NVIDIA H100 80GB HBM3": Peak(989.5e12, 3.35e12, _H100),
    "NVIDIA H100 NVL": Peak(835.5e12, 3.9e12, _H100),
    "NVIDIA H200": Peak(989.5e12, 4.8e12, _H200),
    "NVIDIA H200 NVL": Peak(835.5e12, 4.8e12, _H200),
    "NVIDIA B200": Peak(2250e12, 8.0e12, "https://www.nvidia.com/en-us/data-center/dgx-b200/"),
    "NVIDIA A100-SXM4-80GB": Peak(312e12, 2.039e12, _A100),
    "NVIDIA A100-SXM4-40GB": Peak(312e12, 1.555e12, _A100),
    "NVIDIA A100 80GB PCIe": Peak(312e12, 1.935e12, _A100),
    "NVIDIA L40S": Peak(362e12, 0.864e12, "https://www.nvidia.com/en-us/data-center/l40s/"),
    "AMD Instinct MI300X": Peak(1307.4e12, 5.3e12, _AMD + "mi300x.html"),
    "AMD Instinct MI325X": Peak(1307.4e12, 6.0e12, _AMD + "mi325x.html"),
    "Trainium2": Peak(667e12, 2.9e12, _NEURON + "trainium2.html"),
    "Inferentia2": Peak(190e12, 0.82e12, _NEURON + "inferentia2.html"),
}
VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "sve2", "sve", "asimd")
"""From the widest to the narrowest, as Linux names them."""
NATIVE_BFLOAT16 = VECTORS[:2]
NEURON_CHIPS = {"trn1": "Trainium1", "trn2": "Trainium2", "trn3": "Trainium3", "inf2": "Inferentia2"}


def detect() -> Hardware:
    """This machine, from what the system and the drivers say. Nothing is measured.

    A GPU beside an engine that was built for processors computes nothing: then the machine is a CPU.
    """
    accelerator = None if computes_on_cpu() else _gpus() or _amd_gpus() or _neuron_chips()
    kind, name, count, device_memory = accelerator or ("cpu", None, 0, None)
    peak = PEAKS.get(name or "")
    cpu, vectors = cpu_model(), cpu_vectors()
    logical = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Clouds call all generations of a CPU by one name, and bf16 is several times as fast on some of them.
    model = slug(name or f"{cpu or platform.machine()} {vectors or ''}")
    return Hardware(
        id=f"{kind}-{model}-{f'{count}x' if name else f'{logical}c'}", kind=kind, host=host(),
        cpu_model=cpu, cpu_vectors=vectors, physical_cores=psutil.cpu_count(logical=False),
        logical_cores=logical, memory_bytes=psutil.virtual_memory().total,
        gpu_name=name, gpu_count=count, gpu_memory_bytes=device_memory,
        peak_flops_per_s=peak.flops_per_s if peak else None,
        peak_bytes_per_s=peak.bytes_per_s if peak else None, peak_source=peak.source if peak else None,
    )  # fmt: skip


def host() -> str | None:
    """12 hex digits of the SHA-256 of this host's machine id and boot id; None where it shows no boot id.

    One class of machine may be twice as fast on another host, or on the same one after a restart. Containers
    have their host's boot id, and those of one image may share a machine id.
    """
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return None
    with suppress(OSError):
        boot += MACHINE_ID.read_text().strip()
    return hashlib.sha256(boot.encode()).hexdigest()[:12] if boot else None


def computes_on_cpu() -> bool:
    """Whether engines are installed, and all of them were built for processors."""
    devices = []
    for one in engine.known():
        with suppress(EngineError):
            devices.append(one.build().device)
    return bool(devices) and set(devices) == {"cpu"}


def refuse_another(before: Hardware, now: Hardware) -> None:
    """Raise EngineError if this is no longer the machine that it was: a device fell off, or came back."""
    if now.id != before.id:
        raise EngineError(
            f"this machine was {before.id} when the campaign began, and is {now.id} now: a device has gone. "
            "What was measured is on disk; fix the machine (nvidia-smi, dmesg) and run it again"
        )


def with_peaks(hardware: Hardware) -> Hardware:
    """`hardware`, a CPU's peaks measured now, since no maker states them; takes some seconds on a CPU."""
    if hardware.kind != "cpu":
        return hardware
    flops, bandwidth = measure_peaks()
    return hardware.model_copy(
        update={"peak_flops_per_s": flops, "peak_bytes_per_s": bandwidth, "peak_source": "measured"}
    )


def slug(name: str) -> str:
    """Lower-case words joined by dashes, marketing left out: "Intel(R) Xeon(R) CPU @ 2GHz", "intel-xeon"."""
    text = re.sub(r"\((r|tm)\)|@.*|\b(processor|cpu|\d+-core)\b", " ", name.lower())
    return "-".join(re.findall(r"[a-z0-9]+", text)) or "unknown"


def cpu_model() -> str | None:
    """The CPU's name, or None where the system gives none (some ARM machines)."""
    if sys.platform == "darwin":
        return output("sysctl", "-n", "machdep.cpu.brand_string") or None
    return _cpuinfo("model name")


def cpu_vectors() -> str | None:
    """The widest vector instructions of this CPU that matter to matrix products; None if it lists none."""
    listed = (_cpuinfo("flags|Features") or "").split()
    return next((name for name in VECTORS if name in listed), None)


def _cpuinfo(field: str) -> str | None:
    """The first value of a field of Linux's /proc/cpuinfo."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    match = re.search(rf"^(?:{field})\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else None


def output(command: str, *arguments: str) -> str | None:
    """What a command prints, stripped; None if it is absent, fails or hangs."""
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def measure_peaks(each_s: float = 0.5, size: int = 1024, size_bytes: int = 256 * MIB) -> tuple[float, float]:
    """What this CPU attains: FLOP/s of its fastest matrix product, bytes/s of its fastest pass over memory.

    The best repetition counts, so a busy moment lowers the answer only if it lasts the whole time.

    Args:
        each_s: time to spend on each of bf16 and fp32 products, reading and copying.
        size: rows and columns of the matrices.
        size_bytes: what is read, or copied.

    Returns:
        (FLOP/s, bytes/s). A roofline drawn with them is this machine's own.
    """
    import torch

    square = torch.randn(size, size)
    half = square.to(torch.bfloat16)
    product_s = min(_best_s(lambda: half @ half, each_s), _best_s(lambda: square @ square, each_s))
    source = torch.ones(size_bytes // 4)
    target = torch.zeros_like(source)
    read = size_bytes / _best_s(source.sum, each_s)
    copied = 2 * size_bytes / _best_s(lambda: target.copy_(source), each_s)
    return 2 * size**3 / product_s, max(read, copied)


def _best_s(action: Callable[[], object], budget_s: float) -> float:
    """Shortest time of one call, after one to warm up."""
    action()
    best_s, spent_s = float("inf"), 0.0
    while spent_s < budget_s:
        start = time.perf_counter()
        action()
        took_s = time.perf_counter() - start
        best_s, spent_s = min(best_s, took_s), spent_s + took_s
    return best_s


def _gpus() -> Devices | None:
    """NVIDIA's; None if there is none."""
    printed = output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits") or ""
    rows = [line.rsplit(",", 1) for line in printed.splitlines() if "," in line]
    if not rows:
        return None
    if slices := MIG.findall(output("nvidia-smi", "-L") or ""):
        # A part of a GPU has neither its memory nor its peaks.
        return Devices("cuda", f"{rows[0][0].strip()} MIG {slices[0]}", len(slices), None)
    name, memory_mib = (text.strip() for text in rows[0])
    return Devices("cuda", name, len(rows), int(memory_mib) * MIB if memory_mib.isdigit() else None)


def _amd_gpus() -> Devices | None:
    """AMD's; None if there is none."""
    printed = output("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
    try:
        cards = [card for name, card in json.loads(printed or "{}").items() if name.startswith("card")]
    except (ValueError, AttributeError):
        return None
    if not cards:
        return None
    first = {key.lower(): value for key, value in cards[0].items()}  # "Card series" in older releases
    # A virtual function or a socket is the same chip: "AMD Instinct MI300X VF", "... OAM".
    name = re.sub(r" (VF|OAM)$", "", first.get("card series", "unknown AMD GPU").strip())
    memory = first.get("vram total memory (b)", "")
    return Devices("rocm", name, len(cards), int(memory) if memory.isdigit() else None)


def _neuron_chips() -> Devices | None:
    """AWS's Neuron chips; None if there is none."""
    try:
        chips = json.loads(output("neuron-ls", "--json-output") or "[]")
    except json.JSONDecodeError:
        return None
    if not chips or not isinstance(chips, list):
        return None
    instance = re.search(r"instance-type:\s*([a-z]+\d)", output("neuron-ls") or "")
    name = NEURON_CHIPS.get(instance.group(1)) if instance else None
    return Devices("neuron", name or "unknown Neuron chip", len(chips), chips[0].get("memory_size"))
