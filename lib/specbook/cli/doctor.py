"""What this machine has, what it lacks, and the command that fixes each lack. Nothing is printed here."""

import platform
import shutil
import sys
from collections.abc import Iterator

import psutil

from specbook import engine, paths
from specbook.bench.hardware import NATIVE_BFLOAT16, cpu_vectors, output
from specbook.engine.base import Check, which

GB = 10**9
MIN_DISK_BYTES = 8 * GB
MIN_MEMORY_BYTES = 6 * GB
PYTHONS = ((3, 11), (3, 12), (3, 13))
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NEURON_GUIDE = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/setup/"


def checks() -> list[Check]:
    """What a measurement needs first, what is optional last."""
    engines = (check for each in engine.known() for check in each.checks())
    return [*_machine(), *engines, *_programs()]


def failed(checks: list[Check]) -> bool:
    """Whether anything needed is missing or wrong."""
    return any(check.ok is False for check in checks)


def _machine() -> Iterator[Check]:
    free, memory = shutil.disk_usage(paths.root()).free, psutil.virtual_memory().total
    python = "sudo apt-get install python3.11 python3.11-venv && make distclean setup"
    yield Check.of("Python", sys.version_info[:2] in PYTHONS, platform.python_version(), python)
    yield Check.of("free disk", free >= MIN_DISK_BYTES, f"{free / GB:.0f} GB", "free some: 8 GB are needed")
    vectors = cpu_vectors()
    yield Check.optional(
        "bfloat16", vectors if vectors in NATIVE_BFLOAT16 else None,
        f"this processor ({vectors or 'unknown'}) emulates it, slowly: on it, plan with `dtype: float32`",
    )  # fmt: skip
    yield Check.of("memory", memory >= MIN_MEMORY_BYTES, f"{memory / GB:.0f} GB", "6 GB are needed")


def _programs() -> Iterator[Check]:
    driver = output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    cuda = f"driver {driver.splitlines()[0]}" if driver else None
    yield Check.optional("CUDA", cuda, "on a machine with an NVIDIA GPU: sudo apt-get install nvidia-driver")
    yield Check.optional(
        "Neuron", which("neuron-ls"), f"on an AWS Trainium or Inferentia machine: {NEURON_GUIDE}"
    )
    yield Check.needed("git", which("git"), "sudo apt-get install git")
    yield Check.optional("kubectl", which("kubectl"), "https://kubernetes.io/docs/tasks/tools/#kubectl")
    yield Check.optional("chromium", which(*BROWSERS), "sudo apt-get install chromium")
