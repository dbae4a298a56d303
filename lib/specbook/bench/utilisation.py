"""How busy the machine was over a window: sampled in a thread, twice a second."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from typing import Any, Self

import psutil

from specbook.records.run import Utilisation

PERIOD_S = 0.5


class _Gpus:
    """The GPUs an engine uses, through NVML: the first `count` that are visible; empty without any."""

    def __init__(self, count: int) -> None:
        self.handles: list[Any] = []
        with suppress(Exception):  # no library, no driver, no GPU: all the same to us
            import pynvml

            pynvml.nvmlInit()
            self.nvml = pynvml
            self.handles = [self._handle(name) for name in self._visible()[:count]]

    def _visible(self) -> list[str]:
        """Indices or UUIDs; like CUDA, none after the first empty one or -1."""
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        if given is None:
            return [str(index) for index in range(self.nvml.nvmlDeviceGetCount())]
        return list(takewhile(lambda name: name not in ("", "-1"), map(str.strip, given.split(","))))

    def _handle(self, name: str) -> Any:
        """By index, by the UUID of a GPU (CUDA takes its first digits too), or by that of a MIG slice."""
        if name.isdigit():
            return self.nvml.nvmlDeviceGetHandleByIndex(int(name))
        for index in range(self.nvml.nvmlDeviceGetCount()):
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
            if str(self.nvml.nvmlDeviceGetUUID(handle)).startswith(name):
                return handle
        return self.nvml.nvmlDeviceGetHandleByUUID(name)

    def read(self) -> tuple[float | None, int] | None:
        """(mean utilisation 0 to 1, None for MIG slices: drivers give none; bytes in use on all)."""
        if not self.handles:
            return None
        try:
            busy = [self.nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100 for h in self.handles]
        except self.nvml.NVMLError:
            busy = []
        memory = sum(self.nvml.nvmlDeviceGetMemoryInfo(h).used for h in self.handles)
        return (sum(busy) / len(busy) if busy else None), memory


def machine_busy_s() -> float:
    """Core-seconds that the machine's processors were not idle; time that its host took counts as busy."""
    times = psutil.cpu_times()
    return sum(times) - sum(getattr(times, name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice"))


def process_busy_s(process: psutil.Process) -> float:
    """Core-seconds that a process has used, in its own code and the kernel's; see psutil for errors."""
    return sum(process.cpu_times()[:2])


class Sampler:
    """Samples from entry to exit of a `with` block; `result()` afterwards.

    The engine's processes are asked for each time; `client_pid` is the load generator's. The engine computes
    on the first `gpus`, and the machine's others are no part of its mean.
    """

    def __init__(self, engine_pids: Callable[[], list[int]], client_pid: int, gpus: int = 1) -> None:
        self._engine_pids, self._client_pid = engine_pids, client_pid
        self._cpu_s: dict[int, tuple[float, float]] = {}
        self._rss: list[int] = []
        self._gpu: list[tuple[float | None, int]] = []
        self._gpus, self._stop = _Gpus(gpus), threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._began, self._busy_s = time.monotonic(), machine_busy_s()
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()
        self._seconds, self._busy_s = time.monotonic() - self._began, machine_busy_s() - self._busy_s

    def _loop(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self._sample()

    def _sample(self) -> None:
        self._rss.append(sum(self._read(pid) for pid in self._engine_pids()))
        self._read(self._client_pid)
        self._read(os.getpid())
        if (gpu := self._gpus.read()) is not None:
            self._gpu.append(gpu)

    def _read(self, pid: int) -> int:
        """Note the process's processor time; returns its resident bytes."""
        try:
            process = psutil.Process(pid)
            used = process_busy_s(process)
            self._cpu_s[pid] = (self._cpu_s.get(pid, (used, used))[0], used)
            return process.memory_info().rss
        except psutil.Error:
            return 0

    def _cores(self, pids: set[int]) -> float:
        used = sum(last - first for pid, (first, last) in self._cpu_s.items() if pid in pids)
        return round(used / self._seconds, 3)

    def result(self) -> Utilisation:
        """Means and peaks over the window."""
        engine = set(self._cpu_s) - {self._client_pid, os.getpid()}
        foreign = self._busy_s / self._seconds - self._cores(set(self._cpu_s))
        busy = [share for share, _ in self._gpu if share is not None]
        return Utilisation(
            samples=len(self._rss),
            engine_cpu_cores=self._cores(engine) if engine else None,
            client_cpu_cores=self._cores({self._client_pid}) if self._client_pid in self._cpu_s else None,
            foreign_cpu_cores=round(max(foreign, 0.0), 3),
            engine_rss_bytes=max(self._rss) or None,
            gpu_utilisation=sum(busy) / len(busy) if busy else None,
            gpu_memory_bytes=max(m for _, m in self._gpu) if self._gpu else None,
        )
