"""Shared libraries that the CPU engine needs, or is faster with."""

import ctypes.util
import sys
from pathlib import Path

TCMALLOC_NAMES = ("tcmalloc_minimal", "tcmalloc")
LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def find_libiomp() -> Path | None:
    """Intel's OpenMP runtime, which pip puts beside Python; the CPU engine is slow without it."""
    path = Path(sys.prefix, "lib", "libiomp5.so")
    return path if path.exists() else None


def find_tcmalloc() -> Path | None:
    """Google's allocator, a system library; optional, it makes the CPU engine a little faster."""
    return _system_library(*TCMALLOC_NAMES)


def find_numa() -> Path | None:
    """What the CPU engine's kernels are linked to: without it they do not load."""
    return _system_library("numa")


def _system_library(*names: str) -> Path | None:
    for name in names:
        pattern = ctypes.util.find_library(name) or f"lib{name}.so.[0-9]*"
        for folder in LIBRARY_DIRS:
            if hits := sorted(Path(folder).glob(pattern)):
                return hits[0]
    return None
