"""vLLM's own load generator in a process of its own: killable, its processor time measurable."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from specbook import loadgen_worker, paths
from specbook.config import Point, resolve_model
from specbook.engine.log import last_words
from specbook.errors import EngineError

IMPORT_TIMEOUT_S = 300


def arguments(point: Point, url: str, dataset: Path, num_requests: int, result: Path) -> list[str]:
    """`vllm bench serve` arguments for one run of `num_requests` lines of `dataset`."""
    load, traffic, target = point.load, point.traffic, point.target
    arrivals = (
        ["--max-concurrency", str(load.concurrency)]
        if load.concurrency is not None
        else ["--request-rate", str(load.request_rate_per_s), "--burstiness", "1.0"]
    )
    return [
        "--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions",
        "--model", target.name, "--tokenizer", resolve_model(target.model),
        "--dataset-name", "custom", "--dataset-path", str(dataset), "--custom-output-len", "-1",
        "--skip-chat-template",  # the server applies it; without this the prompt gets it twice
        "--disable-shuffle", "--num-prompts", str(num_requests), *arrivals,
        "--seed", str(traffic.seed), "--temperature", str(traffic.temperature),
        "--save-result", "--save-detailed", "--result-filename", str(result), "--disable-tqdm",
    ]  # fmt: skip


class LoadGenerator:
    """The worker process; starts at once, ready some seconds later.

    Its imports run while the caller does something else, such as starting a server.
    """

    def __init__(self) -> None:
        folder = paths.build_dir() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / f"loadgen-{os.getpid()}-{time.time_ns()}.log"
        quiet = {
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", loadgen_worker.__file__, str(self.log_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=paths.root(),
            env={**os.environ, **quiet}, start_new_session=True,
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
            self._answer(IMPORT_TIMEOUT_S, lambda: True)
            self._ready = True

    def run(
        self, argv: list[str], *, api_key: str | None, timeout_s: float, server_alive: Callable[[], bool]
    ) -> None:
        """Run one job to its end.

        Raises:
            EngineError: if the job failed, took longer than `timeout_s`, or the server went away under it.
        """
        self.wait_ready()
        try:
            self._process.stdin.write((json.dumps({"argv": argv, "api_key": api_key}) + "\n").encode())
            self._process.stdin.flush()
            outcome = self._answer(timeout_s, server_alive)
        except BaseException:  # a job is still running, or the worker is broken: never reuse it
            self.close()
            raise
        if outcome["error"]:
            raise EngineError(f"load generator: {outcome['error']} (log: {self.log_path})")

    def _answer(self, timeout_s: float, server_alive: Callable[[], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            readable, _, _ = select.select([self._process.stdout], [], [], 0.5)
            if readable and (line := self._process.stdout.readline()):
                return json.loads(line)
            if readable or not self.is_alive():
                raise EngineError(f"load generator died: {last_words(self.log_path)} (log: {self.log_path})")
            if not server_alive():
                raise EngineError("the server went away under load")
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
