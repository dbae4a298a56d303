"""How busy a machine was: which programs count, and which GPUs, by a stand-in for NVML.

It has eight GPUs, of which the third is busy.
"""

import os
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from specbook.bench.utilisation import Sampler, process_busy_s

SPIN = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
WORKS_S = 0.5
"""Of processor time, however long that takes where others are busy too."""
UUIDS = [f"GPU-{i}0000000-aaaa" for i in range(8)]
SLICE = "MIG-55555555-bbbb"


class RefusedError(Exception):
    """What NVML raises."""


class Nvml(ModuleType):
    NVMLError = RefusedError

    def nvmlInit(self):  # noqa: N802
        pass

    def __init__(self):
        super().__init__("pynvml")
        self.nvmlDeviceGetCount = lambda: 8
        self.nvmlDeviceGetUUID = UUIDS.__getitem__

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if not 0 <= index < 8:
            raise RefusedError("invalid argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid != SLICE:
            raise RefusedError("not found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        if handle == SLICE:
            raise RefusedError("not supported")
        return SimpleNamespace(gpu=80 if handle == 2 else 0)

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(used=5 if handle == SLICE else 10)


@pytest.fixture
def seen(monkeypatch):
    """(utilisation, memory) with CUDA_VISIBLE_DEVICES as given, for an engine on so many GPUs."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())

    def measured(visible, gpus=1):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with Sampler(lambda: [os.getpid()], 0, gpus) as sampler:
            pass
        found = sampler.result()
        return found.gpu_utilisation, found.gpu_memory_bytes

    return measured


@pytest.mark.parametrize(
    ("visible", "gpus", "want"),
    [
        ("2", 1, (0.8, 10)),
        ("2,3", 1, (0.8, 10)),
        ("2, 3", 2, (0.4, 20)),
        (UUIDS[2], 1, (0.8, 10)),
        ("GPU-2000", 1, (0.8, 10)),
        (SLICE, 1, (None, 5)),
        (None, 1, (0.0, 10)),
        (None, 8, (0.1, 80)),
        ("", 1, (None, None)),
        ("-1", 1, (None, None)),
        ("2,-1,3", 2, (0.8, 10)),
        ("GPU-nowhere", 1, (None, None)),
    ],
)
def test_the_engines_gpus_count_and_no_other(seen, visible, gpus, want):
    assert seen(visible, gpus) == (pytest.approx(want[0]) if want[0] else want[0], want[1])


def test_this_process_uses_memory_and_there_may_be_no_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it fails
    with Sampler(lambda: [os.getpid()], 0) as sampler:
        pass
    assert sampler.result().engine_rss_bytes > 2**20
    assert sampler.result().gpu_utilisation is None


def sampled(engine_pids, spinning):
    with Sampler(lambda: engine_pids, os.getpid()) as sampler:
        until = process_busy_s(psutil.Process(spinning.pid)) + WORKS_S
        while process_busy_s(psutil.Process(spinning.pid)) < until and spinning.poll() is None:
            time.sleep(0.1)
    return sampler.result(), sampler._seconds


def test_a_program_beside_the_engine_is_foreign():
    spinning = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        (foreign, first_s), (own, second_s) = sampled([], spinning), sampled([spinning.pid], spinning)
    finally:
        spinning.kill()
        spinning.wait()
    assert foreign.engine_cpu_cores is None
    assert foreign.foreign_cpu_cores * first_s > 0.8 * WORKS_S
    assert own.engine_cpu_cores * second_s > 0.8 * WORKS_S
    assert own.foreign_cpu_cores <= os.cpu_count() - own.engine_cpu_cores + 0.1
