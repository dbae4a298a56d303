"""The load generator in a process of its own: killable, its processor time measurable."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from specbook import engine, paths
from specbook.errors import EngineError

IMPORT_TIMEOUT_S = 300


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the files of one window, named after this process; what killed measurements left goes."""
    above = paths.scratch("bench")
    for left in above.iterdir():
        owner = left.name.partition("-")[0]
        if not owner.isdigit() or not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=above, prefix=f"{os.getpid()}-") as folder:
        yield Path(folder)


class LoadGenerator:
    """The worker process; starts at once, ready some seconds later.

    Its imports run while the caller does something else, such as starting a server.
    """

    def __init__(self) -> None:
        self.log_path = paths.scratch("logs") / f"loadgen-{os.getpid()}-{time.time_ns()}.log"
        self._tool = engine.load_tool()
        direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(self._tool.worker), str(self.log_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=paths.root(),
            env={**os.environ, **self._tool.environment, **direct}, start_new_session=True,
        )  # fmt: skip
        self._ready = False

    @property
    def pid(self) -> int:
        """The worker's process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the worker runs."""
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Return when its imports are done."""
        if not self._ready:
            self._answer(IMPORT_TIMEOUT_S, lambda: None)
            self._ready = True

    def run(
        self, argv: list[str], *, api_key: str | None, timeout_s: float, watch: Callable[[], None]
    ) -> None:
        """Run one job to its end; `watch` is called twice a second, and ends it by raising EngineError.

        Raises:
            EngineError: if the job failed, took longer than `timeout_s`, or `watch` raised it.
        """
        self.wait_ready()
        try:
            self._process.stdin.write((json.dumps({"argv": argv, "api_key": api_key}) + "\n").encode())
            self._process.stdin.flush()
            outcome = self._answer(timeout_s, watch)
        except BaseException:  # a job is still running, or the worker is broken: never reuse it
            self.close()
            raise
        if outcome["error"]:
            raise EngineError(f"load generator: {outcome['error']} (log: {self.log_path})")

    def _answer(self, timeout_s: float, watch: Callable[[], None]) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            readable, _, _ = select.select([self._process.stdout], [], [], 0.5)
            if readable and (line := self._process.stdout.readline()):
                return json.loads(line)
            if readable or not self.is_alive():
                raise EngineError(
                    f"load generator died: {self._tool.last_words(self.log_path)} (log: {self.log_path})"
                )
            watch()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no answer from the load generator after {timeout_s:g} s (log: {self.log_path})"
                )

    def close(self) -> None:
        """End the worker."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@cache
def _shared() -> list[LoadGenerator]:
    return [LoadGenerator()]


def shared() -> LoadGenerator:
    """One worker for the whole process, replaced when it died. Call early to hide its imports."""
    if not _shared()[0].is_alive():
        _shared.cache_clear()
    return _shared()[0]


def dismiss() -> None:
    """End the shared worker, if there is one; `shared` starts another."""
    if _shared.cache_info().currsize:
        _shared()[0].close()
        _shared.cache_clear()
