"""Prompts in one seeded order, and the load generator that sends them, in a process of its own.

So it can be killed, and its processor time is known.
"""

import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from specbook import engine, paths
from specbook.config import prompt_files
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Point, Traffic
from specbook.errors import EngineError

IMPORT_TIMEOUT_S = 300


def select_prompts(prompts: Sequence[Prompt], n: int, seed: int) -> list[Prompt]:
    """The first `n` prompts in the seed's order, starting again from the first when there are fewer."""
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return [order[i % len(order)] for i in range(n)]


def measured_and_warmup(
    traffic: Traffic, num_requests: int, num_warmups: int
) -> tuple[list[Prompt], list[Prompt]]:
    """(measured, warm-up) prompts: the measured ones do not depend on how many warm-ups there are."""
    chosen = select_prompts(prompt_files.for_traffic(traffic), num_requests + num_warmups, traffic.seed)
    return chosen[:num_requests], chosen[num_requests:]


def write_dataset(path: Path, prompts: Sequence[Prompt], max_tokens: int) -> Path:
    """Write vLLM's custom dataset, one line per request; line i is `prompts[i]`.

    A conversation has its turns beside its last one, as `chat_messages`: see `engine.vllm.load_worker`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        {"prompt": one.prompt, "output_tokens": max_tokens}
        | ({"chat_messages": one.turns()} if one.messages else {})
        for one in prompts
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
        self.pid, self._ready = self._process.pid, False

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
def _shared() -> LoadGenerator:
    return LoadGenerator()


def shared() -> LoadGenerator:
    """One worker for the whole process, replaced when it died. Call early to hide its imports."""
    if not _shared().is_alive():
        _shared.cache_clear()
    return _shared()


def dismiss() -> None:
    """End the shared worker, if there is one; `shared` starts another."""
    if _shared.cache_info().currsize:
        _shared().close()
        _shared.cache_clear()


def arguments(window: Path, point: Point, url: str, num_requests: int) -> list[str]:
    """The job of one window: `<window>.jsonl` holds its prompts, `<window>.json` will hold its result."""
    dataset, result = window.with_suffix(".jsonl"), window.with_suffix(".json")
    return engine.load_tool().arguments(point, url, dataset, num_requests, result)


def send(
    window: Path, point: Point, prompts: Sequence[Prompt], url: str,
    *, api_key: str | None, timeout_s: float, watch: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Send the prompts to `url` as the point loads a server; returns the load generator's result.

    See `LoadGenerator.run` for `watch` and errors.
    """
    write_dataset(window.with_suffix(".jsonl"), prompts, point.traffic.max_tokens)
    job = arguments(window, point, url, len(prompts))
    shared().run(job, api_key=api_key, timeout_s=timeout_s, watch=watch)
    result = json.loads(window.with_suffix(".json").read_text(encoding="utf-8"))
    if "latencies" not in result:  # vLLM 0.26 does not save them
        pairs = zip(result["ttfts"], result["itls"], strict=True)
        result["latencies"] = [ttft_s + sum(gaps_s) for ttft_s, gaps_s in pairs]
    return result


def first_error(result: dict[str, Any]) -> str:
    """The last line of what the first failed request of a result said."""
    return next((error for error in result["errors"] if error), "no error given").strip().splitlines()[-1]
