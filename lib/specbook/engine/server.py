"""An engine's server as a context manager: started, waited for, paused, and ended whatever happens."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import httpx
import psutil

from specbook import engine, paths
from specbook.config.schema import Speculation, Target
from specbook.engine import preflight, reaper
from specbook.engine.base import OPEN_PATHS, Counters, Pulse
from specbook.engine.client import Client
from specbook.errors import ConfigError, EngineError

DEATH_S = 10.0
"""How long a dying engine gets to say why."""
DRAIN_S = 5.0
"""From SIGTERM to SIGKILL."""
RESUME_S = 60.0
"""A paused server answers again in milliseconds; one that does not in a minute hangs."""


class Server:
    """A running server of the target's engine, gone when the `with` block is left, however it is left.

    Args:
        target: the model to serve.
        speculation: how to draft; None for the baseline.
        port: of 127.0.0.1; None for a free one.
        api_key: demanded of clients on every path but health; passed in the environment, never recorded.
        open_counters: without the key, the server's counters can be read all the same.
        ready_timeout_s: how long the engine may take to answer.
        log_dir: where its log goes; None for `build/logs`.

    Raises:
        ConfigError: before anything is started, for models that cannot work.
        EngineError: if the port is taken, or the engine crashes or is not ready in time.
    """

    def __init__(
        self, target: Target, speculation: Speculation | None = None, *, port: int | None = None,
        api_key: str | None = None, open_counters: bool = False, ready_timeout_s: float = 600,
        log_dir: Path | None = None,
    ) -> None:  # fmt: skip
        self.target, self.speculation, self.api_key = target, speculation, api_key
        self.port = port or preflight.free_port()
        self.ready_timeout_s = ready_timeout_s
        self.engine = engine.for_target(target)
        if api_key and self.engine.key_variable is None:
            raise ConfigError(
                f"{self.engine.title} takes a key on its command line, where other users could read it. To "
                "fix: give no key, or another engine"
            )
        lock = self.engine.lock_arguments if api_key else ()
        self.command = [*self.engine.command(target, speculation, self.port), *lock]
        self._open_paths = [self.engine.health_path, *([self.engine.counters_path] if open_counters else [])]
        self.environment = self.engine.environment(target, speculation)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        name = target.name.replace("/", "-")
        self.log_path = (log_dir or paths.scratch("logs")) / f"{stamp}-{name}-{self.port}.log"
        self.start_s = 0.0
        """From its first process to its first answer: weights were read, and the largest step was taken."""
        self._began = 0.0
        self._guard: subprocess.Popen[bytes] | None = None
        self.client = Client(f"http://127.0.0.1:{self.port}", target.name, api_key)

    def begin(self) -> Self:
        """Start the engine; the `with` block then waits for it. Without that block, `stop` it yourself."""
        if problem := self.engine.refusal(self.target, self.speculation):
            raise ConfigError(problem)
        preflight.check(self.target, self.speculation)
        preflight.check_port(self.port)
        self._began = time.monotonic()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __enter__(self) -> Self:
        if self._guard is None:
            self.begin()
        try:
            self._wait_until_ready(self.ready_timeout_s)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - self._began
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        # A key in the caller's environment is not ours: every request would be refused.
        inherited = {name: text for name, text in os.environ.items() if name != self.engine.key_variable}
        lock = {self.engine.key_variable: self.api_key, OPEN_PATHS: " ".join(self._open_paths)}
        self.log_path.parent.mkdir(parents=True, exist_ok=True)  # the caller's `log_dir`
        with self.log_path.open("wb") as file:
            self._guard = subprocess.Popen(
                [sys.executable, "-IS", reaper.__file__, str(DRAIN_S), *self.command],
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, cwd=paths.root(),
                env=inherited | self.environment | (lock if self.api_key else {}), start_new_session=True,
            )  # fmt: skip

    def _wait_until_ready(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not self.is_healthy():
            if not self.is_alive():
                raise EngineError(f"{self.obituary()} (before it was ready; log: {self.log_path})")
            if time.monotonic() > deadline:
                raise EngineError(
                    f"{self.engine.title} was alive but not ready after {within_s:g} s. "
                    f"It said: {self.last_words()} (log: {self.log_path})"
                )
            time.sleep(0.2)

    def is_healthy(self) -> bool:
        """Whether the server answers, its engine included."""
        try:
            self.client.get(self.engine.health_path)
        except httpx.HTTPError:
            return False
        return True

    def is_alive(self) -> bool:
        """Whether the engine's first process runs."""
        return self._guard is not None and self._guard.poll() is None

    def obituary(self) -> str:
        """How the engine ended, and its last error."""
        code = self._guard.poll() if self._guard else None
        ending = "was never started" if code is None else reaper.ending(code)
        return f"{self.engine.title} {ending}: {self.last_words()}"

    def diagnosis(self, error: EngineError) -> str:
        """The error, and when the engine is dying its own last words."""
        deadline = time.monotonic() + DEATH_S
        while self.is_alive() and not self.is_healthy() and time.monotonic() < deadline:
            time.sleep(0.1)
        return str(error) if self.is_alive() else f"{error}. {self.obituary()} (log: {self.log_path})"

    def last_words(self) -> str:
        """The last error in the engine's log, failing that its last lines."""
        return self.engine.last_words(self.log_path)

    def pids(self) -> list[int]:
        """The engine's processes, its guard not among them."""
        if not self.is_alive():
            return []
        with suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._guard.pid).children(recursive=True)]
        return []

    def pause(self) -> None:
        """Stop the engine's processes (SIGSTOP): idle, they would still spin. Harmless when it has ended."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused engine run, and wait until it answers; harmless when it runs.

        Raises:
            EngineError: if it has ended, or does not answer in time.
        """
        self._signal(signal.SIGCONT)
        self._wait_until_ready(RESUME_S)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def counters(self) -> Counters:
        """What the server has counted since its start; EngineError if it does not answer."""
        return self.engine.counters(self._counters_page())

    def pulse(self) -> Pulse:
        """What moves while it works; see `counters` for errors."""
        return self.engine.pulse(self._counters_page())

    def _counters_page(self) -> str:
        try:
            return self.client.get(self.engine.counters_path)
        except httpx.HTTPError as error:
            why = f"no answer ({error})" if self.is_alive() else self.obituary()
            raise EngineError(f"cannot read {self.client.url}{self.engine.counters_path}: {why}") from error

    def stop(self) -> None:
        """End the engine and wait until nothing of it is left; harmless when it already ended.

        Should this wait be interrupted, the guard goes on without us.
        """
        if self._guard is None:
            return
        with suppress(OSError):
            self._guard.stdin.close()  # the guard reads this as "stop"
        try:
            self._guard.wait(timeout=DRAIN_S + 10)
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"the engine's guard, pid {self._guard.pid}, did not end: kill it") from error
