"""How busy the machine was over a window: sampled in a thread, twice a second."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import psutil

from specbook.records import Utilisation

PERIOD_S = 0.5


class _Gpus:
    """GPUs through NVML; empty where there is none."""

    def __init__(self) -> None:
        self.handles: list[Any] = []
        with suppress(Exception):  # no library, no driver, no GPU: all the same to us
            import pynvml

            pynvml.nvmlInit()
            self.nvml = pynvml
            count = pynvml.nvmlDeviceGetCount()
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
            self.handles = [pynvml.nvmlDeviceGetHandleByIndex(int(i)) for i in visible.split(",") if i]

    def read(self) -> tuple[float, int] | None:
        """(mean utilisation 0 to 1, bytes in use on all of them)."""
        if not self.handles:
            return None
        busy = [self.nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100 for h in self.handles]
        return sum(busy) / len(busy), sum(self.nvml.nvmlDeviceGetMemoryInfo(h).used for h in self.handles)


class Sampler:
    """Samples from entry to exit of a `with` block; `result()` afterwards."""

    def __init__(self, engine_pids: Callable[[], list[int]], client_pid: int) -> None:
        self._engine_pids, self._client_pid = engine_pids, client_pid
        self._cpu_s: dict[int, tuple[float, float]] = {}
        self._rss: list[int] = []
        self._gpu: list[tuple[float, int]] = []
        self._gpus, self._stop = _Gpus(), threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()
        self._seconds = time.monotonic() - self._began

    def _loop(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self._sample()

    def _sample(self) -> None:
        self._rss.append(sum(self._read(pid) for pid in self._engine_pids()))
        self._read(self._client_pid)
        if (gpu := self._gpus.read()) is not None:
            self._gpu.append(gpu)

    def _read(self, pid: int) -> int:
        """Note the process's processor time; returns its resident bytes."""
        try:
            process = psutil.Process(pid)
            used = sum(process.cpu_times()[:2])
            self._cpu_s[pid] = (self._cpu_s.get(pid, (used, used))[0], used)
            return process.memory_info().rss
        except psutil.Error:
            return 0

    def _cores(self, pids: set[int]) -> float:
        return round(
            sum(last - first for pid, (first, last) in self._cpu_s.items() if pid in pids) / self._seconds, 3
        )

    def result(self) -> Utilisation:
        """Means and peaks over the window."""
        engine = set(self._cpu_s) - {self._client_pid}
        return Utilisation(
            samples=len(self._rss),
            engine_cpu_cores=self._cores(engine) if engine else None,
            client_cpu_cores=self._cores({self._client_pid}) if self._client_pid in self._cpu_s else None,
            engine_rss_bytes=max(self._rss) or None,
            gpu_utilisation=sum(g for g, _ in self._gpu) / len(self._gpu) if self._gpu else None,
            gpu_memory_bytes=max(m for _, m in self._gpu) if self._gpu else None,
        )
