"""What this machine is, and how fast it could go at most. What is not known is None, never a guess."""

import ctypes.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
from pydantic import BaseModel, ConfigDict, Field

MIB = 2**20


class Peak(NamedTuple):
    """What the maker says one device can do: dense bf16, no sparsity."""

    flops_per_s: float
    bytes_per_s: float
    source: str


_H100 = "https://www.nvidia.com/en-us/data-center/h100/"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_A100 = "https://www.nvidia.com/en-us/data-center/a100/"
_NEURON = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/arch/neuron-hardware/"

# Keys are the names nvidia-smi prints, or the Neuron chip's. A name that is not here has no known peak.
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
    "Trainium2": Peak(667e12, 2.9e12, _NEURON + "trainium2.html"),
    "Inferentia2": Peak(190e12, 0.82e12, _NEURON + "inferentia2.html"),
}
NEURON_CHIPS = {"trn1": "Trainium1", "trn2": "Trainium2", "trn3": "Trainium3", "inf2": "Inferentia2"}
TCMALLOC_NAMES = ("tcmalloc_minimal", "tcmalloc")
LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


class Hardware(BaseModel):
    """One machine. Peaks are per device: one GPU, one Neuron chip, or the whole CPU."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    """Slug that names the folder its records lie in, such as `cpu-amd-epyc-2c` or `cuda-nvidia-h200-1x`."""
    kind: Literal["cpu", "cuda", "neuron"]
    """What the engine computes on."""
    cpu_model: str | None
    """The CPU's name as the system reports it."""
    physical_cores: int | None
    """Physical cores of the machine; None where a virtual machine hides them."""
    logical_cores: int = Field(ge=1)
    """Logical cores this process may use."""
    memory_bytes: int = Field(gt=0)
    """Main memory."""
    gpu_name: str | None = None
    """The accelerator's name, GPU or Neuron chip; None on a CPU."""
    gpu_count: int = Field(default=0, ge=0)
    """Accelerators in the machine."""
    gpu_memory_bytes: int | None = None
    """Memory of one accelerator."""
    peak_flops_per_s: float | None = None
    """Dense bf16 FLOP/s of one device; None if unknown. On a CPU it is measured: see `measure_peaks`."""
    peak_bytes_per_s: float | None = None
    """Memory bandwidth of one device; None if unknown."""
    peak_source: str | None = None
    """Where the peaks come from: the maker's page, or "measured"; None if unknown."""


def detect() -> Hardware:
    """This machine, from what the system and the drivers say. Nothing is measured."""
    kind, name, count, device_memory = _gpus() or _neuron_chips() or ("cpu", None, 0, None)
    peak = PEAKS.get(name or "")
    cpu = cpu_model()
    logical = _usable_cores()
    return Hardware(
        id=f"{kind}-{slug(name or cpu or platform.machine())}-{f'{count}x' if name else f'{logical}c'}",
        kind=kind,
        cpu_model=cpu,
        physical_cores=psutil.cpu_count(logical=False),
        logical_cores=logical,
        memory_bytes=psutil.virtual_memory().total,
        gpu_name=name,
        gpu_count=count,
        gpu_memory_bytes=device_memory,
        peak_flops_per_s=peak.flops_per_s if peak else None,
        peak_bytes_per_s=peak.bytes_per_s if peak else None,
        peak_source=peak.source if peak else None,
    )


def with_peaks(found: Hardware) -> Hardware:
    """`found`, a CPU's peaks measured now, since no maker states them; takes some seconds on a CPU."""
    if found.kind != "cpu":
        return found
    flops, bandwidth = measure_peaks()
    return found.model_copy(
        update={"peak_flops_per_s": flops, "peak_bytes_per_s": bandwidth, "peak_source": "measured"}
    )


def slug(name: str) -> str:
    """Lower-case words joined by dashes, marketing left out: "Intel(R) Xeon(R) CPU @ 2GHz", "intel-xeon"."""
    text = re.sub(r"\((r|tm)\)|@.*|\b(processor|cpu|\d+-core)\b", " ", name.lower())
    return "-".join(re.findall(r"[a-z0-9]+", text)) or "unknown"


def cpu_model() -> str | None:
    """The CPU's name, or None where the system gives none (some ARM machines)."""
    if sys.platform == "darwin":
        return output("sysctl", "-n", "machdep.cpu.brand_string")
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found.group(1).strip() if found else None


def output(command: str, *arguments: str) -> str | None:
    """What a command prints, stripped; None if it is absent, fails, hangs or prints nothing."""
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def find_libiomp() -> Path | None:
    """Intel's OpenMP runtime, which pip puts beside Python; the CPU engine is slow without it."""
    path = Path(sys.prefix, "lib", "libiomp5.so")
    return path if path.exists() else None


def find_tcmalloc() -> Path | None:
    """Google's allocator, a system library; optional, it makes the CPU engine a little faster."""
    for name in TCMALLOC_NAMES:
        pattern = ctypes.util.find_library(name) or f"lib{name}.so.[0-9]*"
        for folder in LIBRARY_DIRS:
            if hits := sorted(Path(folder).glob(pattern)):
                return hits[0]
    return None


def measure_peaks(seconds: float = 2.0) -> tuple[float, float]:
    """What this CPU attains: FLOP/s of its fastest matrix product, bytes/s of its fastest pass over memory.

    The best repetition counts, so a busy moment lowers the answer only if it lasts the whole time.

    Args:
        seconds: time to spend; half on bf16 and fp32 products, half on reading and copying.

    Returns:
        (FLOP/s, bytes/s). A roofline drawn with them is this machine's own.
    """
    import torch

    return _gemm_flops_per_s(torch, seconds / 2), _memory_bytes_per_s(torch, seconds / 2)


def _gemm_flops_per_s(torch: Any, seconds: float, size: int = 1024) -> float:
    square = torch.randn(size, size)
    half = square.to(torch.bfloat16)
    best_s = min(_best_s(lambda: half @ half, seconds / 2), _best_s(lambda: square @ square, seconds / 2))
    return 2 * size**3 / best_s


def _memory_bytes_per_s(torch: Any, seconds: float, size_bytes: int = 256 * MIB) -> float:
    source = torch.ones(size_bytes // 4)
    target = torch.zeros_like(source)
    read = size_bytes / _best_s(source.sum, seconds / 2)
    copied = 2 * size_bytes / _best_s(lambda: target.copy_(source), seconds / 2)
    return max(read, copied)


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


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> tuple[str, str, int, int | None] | None:
    """Kind, name, count and memory per device of the NVIDIA GPUs; None if there is none."""
    printed = output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    if printed is None:
        return None
    rows = [line.rsplit(",", 1) for line in printed.splitlines() if "," in line]
    if not rows:
        return None
    memory_mib = rows[0][1].strip()
    return "cuda", rows[0][0].strip(), len(rows), int(memory_mib) * MIB if memory_mib.isdigit() else None


def _neuron_chips() -> tuple[str, str, int, int | None] | None:
    """Kind, name, count and memory per device of AWS's Neuron chips; None if there is none."""
    try:
        chips = json.loads(output("neuron-ls", "--json-output") or "[]")
    except json.JSONDecodeError:
        return None
    if not chips or not isinstance(chips, list):
        return None
    instance = re.search(r"instance-type:\s*([a-z]+\d)", output("neuron-ls") or "")
    name = NEURON_CHIPS.get(instance.group(1)) if instance else None
    return "neuron", name or "unknown Neuron chip", len(chips), chips[0].get("memory_size")
