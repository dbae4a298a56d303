"""llama.cpp as an engine; see `engine.base` for what each of these is."""

import re
import sys
from importlib import metadata
from pathlib import Path

from specbook import paths
from specbook.config.methods import Method
from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import refusals, server_log
from specbook.engine.base import Build, Check, Counters, Device, Pulse, inherited, version
from specbook.engine.llama_cpp import counter_page, llama_server
from specbook.engine.preflight import models
from specbook.errors import EngineError

WHEEL = "xllamacpp"
INSTALL = "pip install 'specbook[llama-cpp]'"
INHERITED = ("LLAMA_", "GGML_", "OMP_", "GOMP_", "CUDA_VISIBLE_DEVICES")
TYPES = {"ngram": "NGRAM_SIMPLE", "draft_model": "DRAFT_SIMPLE", "eagle3": "DRAFT_EAGLE3"}
"""Member of `common_speculative_type` by method. It has others that no plan names: MTP, DFlash, DSpark, and
the ngram kinds map-k, map-k4v, mod and cache (docs/speculative.md of llama.cpp)."""
LOOKUP = 5
"""Tokens that are looked up where a plan does not say: vLLM's default, so that both engines do the same."""
PRECISIONS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


class LlamaCpp:
    """llama.cpp's own server, OpenAI-compatible, from a wheel."""

    name = "llama_cpp"
    title = "llama.cpp"
    packages = (WHEEL,)
    key_variable = llama_server.KEY
    lock_arguments = ()
    """None: with a key it demands it on every path but health, that of its counters included."""
    health_path = "/health"
    counters_path = "/metrics"
    load_tool = profiler = None

    def build(self) -> Build:
        """The wheel that is installed; raises EngineError if none is."""
        try:
            return Build(WHEEL, metadata.version(WHEEL), _device(), bytes_beside_weights=2**30)
        except metadata.PackageNotFoundError as error:
            raise EngineError(f"llama.cpp is not installed. To fix: {INSTALL}") from error

    def knows(self, method: type[Method]) -> bool:
        """Three, none of them with parallel drafting."""
        return method.name in TYPES and not method.parallel_drafting

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods and settings that it has not, and models that are no GGUF."""
        unknown = (
            _unknown_setting(target) or refusals.of_draft(self, speculation) or _two_lengths(speculation)
        )
        files = (_no_gguf(model) for model in models(target, speculation))
        return unknown or next(filter(None, files), None) or _other_precision(target)

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """`python -P llama_server.py NAME=VALUE ...`, since the wheel has no command.

        Sampling is neutral where a request does not say it, and nothing is kept of earlier prompts.
        """
        settings = {
            "model.path": gguf(target.model), "model_alias": target.name,
            "hostnames": "127.0.0.1", "port": port,
            "n_parallel": target.max_num_seqs, "n_ctx": target.max_num_seqs * target.max_model_len,
            "cache_prompt": "false", "cache_ram_mib": 0, "cache_idle_slots": "false",
            "endpoint_metrics": "true", "fit_params": "false", "ui": "false",
            "sampling.seed": 0, "sampling.top_k": 0, "sampling.top_p": 1.0, "sampling.min_p": 0.0,
            **(_drafting(speculation) if speculation else {}),
        }  # fmt: skip
        line = [sys.executable, "-P", llama_server.__file__]
        return [*line, *(f"{name}={value}" for name, value in settings.items()), *target.extra_args]

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """The caller's variables that matter to it; none of ours."""
        return inherited(INHERITED)

    def counters(self, text: str) -> Counters:
        """From Prometheus text."""
        return counter_page.read(text)

    def page_counters(self, text: str, model: str) -> Counters | None:
        """Counters of any release; a server has one model, and does not name it there."""
        return counter_page.page_counters(text)

    def pulse(self, text: str) -> Pulse:
        """Its lines of the same text."""
        return counter_page.pulse(text)

    def last_words(self, log: Path) -> str:
        """Its own errors first, then those of `llama_server`."""
        return server_log.last_words(log, counter_page.ERROR, server_log.PYTHON)

    def checks(self) -> list[Check]:
        """The wheel, which nothing but this engine needs."""
        return [Check.optional(self.title, version(WHEEL), INSTALL)]


def _device() -> Device:
    from xllamacpp import get_device_info  # 0.1 GB of code, which only they load who ask for this engine

    return "accelerator" if any(one["type"].name.endswith("GPU") for one in get_device_info()) else "cpu"


def gguf(model: str) -> str:
    """The one GGUF in a model's folder, by its whole path; the folder where it has none."""
    found = sorted(Path(resolve_model(model)).glob("*.gguf"))
    return str(found[0]) if found else model


def _drafting(speculation: Speculation) -> dict[str, object]:
    k, kind = speculation.num_speculative_tokens, TYPES[speculation.method]
    types = {"speculative.types": f"COMMON_SPECULATIVE_TYPE_{kind}"}
    if speculation.model is None:
        size = speculation.prompt_lookup_min or speculation.prompt_lookup_max or LOOKUP
        return types | {"speculative.ngram_simple.size_n": size, "speculative.ngram_simple.size_m": k}
    limits = {"n_max": k, "n_min": 0, "p_min": 0.0, "mparams.path": gguf(speculation.model)}
    # Sampled inside the graph, an EAGLE-3 head's tokens are nearly all rejected once requests draft together:
    # of eight in flight 6 % of the first ones were accepted, and 35 % with this.
    limits["backend_sampling"] = "false"
    return types | {f"speculative.draft.{name}": value for name, value in limits.items()}


def _unknown_setting(target: Target) -> str | None:
    """Settings of vLLM's that would be ignored, and a page would name."""
    asked = {
        "execution: eager": target.execution == "eager",
        "load_format: dummy": target.load_format == "dummy",
        "router_noise": target.router_noise > 0,
        "tensor_parallel_size": target.tensor_parallel_size > 1,
        "revision": target.revision is not None,
    }
    unknown = next((name for name, is_set in asked.items() if is_set), None)
    return unknown and f"llama.cpp has no `{unknown}` here. To fix: leave it out, or use `engine: vllm`"


def _two_lengths(speculation: Speculation | None) -> str | None:
    low, high = (
        (speculation.prompt_lookup_min, speculation.prompt_lookup_max) if speculation else (None, None)
    )
    if not low or not high or low == high:
        return None
    keys = f"prompt_lookup_min and prompt_lookup_max to {low}"
    return f"llama.cpp looks up one length, not {low} to {high} tokens. To fix: set {keys}"


def _no_gguf(model: str) -> str | None:
    folder = paths.at(model)
    found = len([*folder.glob("*.gguf")])
    if found == 1 or (not folder.is_dir() and paths.build_dir() in folder.parents):  # `specbook run` makes it
        return None
    what = f"holds {found}" if folder.is_dir() else "is no folder here"
    return (
        f"llama.cpp serves a folder with one GGUF, and {model} {what}. To fix: put one there, beside the "
        "model's config.json and tokenizer; safetensors are for `engine: vllm`"
    )


def _other_precision(target: Target) -> str | None:
    """The file's name tells its type, as llama.cpp's own tools write it (`...-Q4_1.gguf`)."""
    wanted = target.quantization or PRECISIONS.get(target.dtype)
    name = Path(gguf(target.model)).stem
    if wanted is None or wanted.lower() in re.split(r"[.-]", name.lower()):
        return None
    return (
        f"{name}.gguf is not named as of type {wanted}, which the plan says. To fix: set `quantization` to "
        "its type, such as Q4_1, or `dtype: auto`"
    )
