"""llama.cpp by the wheel `xllamacpp`: GGUF models on a laptop, measured by the same load generator as vLLM's.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.

Its counters move when a request ends, and are read in the same thread: a page is never late. They are printed
with six digits, so after a million tokens of one server they no longer agree with what its clients counted.
Source: llama.cpp b11549, tools/server/server-task.cpp (`server_task_result_metrics::to_metrics`).
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

from specbook import paths
from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import counters
from specbook.engine.base import Build, Check, Counters, Device, register, version
from specbook.engine.llama_cpp import llama_server
from specbook.engine.other_engine import PYTHON, OtherEngine
from specbook.engine.preflight import models
from specbook.errors import EngineError
from specbook.records.run import ServerCounters, SpecDecodeCounters

WHEEL = "xllamacpp"
TYPES = {"ngram": "NGRAM_SIMPLE", "draft_model": "DRAFT_SIMPLE", "eagle3": "DRAFT_EAGLE3"}
"""Member of `common_speculative_type` by method. It has others that no plan names: MTP, DFlash, DSpark, and
the ngram kinds map-k, map-k4v, mod and cache (docs/speculative.md of llama.cpp)."""
LOOKUP = 5
"""Tokens that are looked up where a plan does not say: vLLM's default, so that both engines do the same."""
PRECISIONS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
PROMPT, CACHED = "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"
GENERATED = "llamacpp:tokens_predicted_total"
SPEC_DECODE = {
    "num_drafts": "llamacpp:spec_decode_num_drafts_total",
    "num_draft_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
    "num_accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
}
PER_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
"""Absent until a request has drafted; K positions from then on."""
ERROR = re.compile(r"^[\d.]+ E (.*)")
"""`0.00.006 E srv    load_model: ...`."""


class LlamaCpp(OtherEngine):
    """llama.cpp's own server, OpenAI-compatible, from a wheel."""

    name = "llama_cpp"
    title = "llama.cpp"
    packages = (WHEEL,)
    install = "pip install 'specbook[llama-cpp]'"
    variables = ("LLAMA_", "GGML_", "OMP_", "GOMP_", "CUDA_VISIBLE_DEVICES")
    drafts_by = TYPES
    prefix = "llamacpp:"
    prompt_tokens = PROMPT
    release = "b11549"
    queued = ("llamacpp:requests_processing", "llamacpp:requests_deferred")
    prefill = ""
    errors = (ERROR, PYTHON)
    key_variable = llama_server.KEY
    """With a key it demands it on every path but health, that of its counters included."""

    def build(self) -> Build:
        """The wheel that is installed; raises EngineError if none is."""
        return replace(super().build(), device=_device(), bytes_beside_weights=2**30)

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods and settings that it has not, and models that are no GGUF."""
        unknown = (
            _unknown_setting(target) or super().refusal(target, speculation) or _two_lengths(speculation)
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

    def counters(self, text: str) -> Counters:
        """From Prometheus text; EngineError for a page of another engine, or without one of the counters."""
        found = super().counters(text)
        if found.lacks:
            missing = found.lacks.partition(",")[0]
            raise EngineError(counters.lacking(text, missing, self.title, self.release))
        return found

    def page_counters(self, text: str, model: str) -> Counters | None:
        """Counters of any release; a server has one model, and does not name it there.

        It counts no requests and no time in the queue, and knows no preemption.
        """
        totals = counters.totals(text, self.prefix)
        if not totals:
            return None
        demanded = (PROMPT, GENERATED, *SPEC_DECODE.values())
        missing = next((name for name in demanded if name not in totals), None)
        server = ServerCounters(
            prompt_tokens=totals[PROMPT] + totals[CACHED], generation_tokens=totals[GENERATED],
            requests_finished=None, prefix_cache_hits=totals[CACHED], preemptions=0, queue_time_s=None,
        )  # fmt: skip
        if missing or not totals[SPEC_DECODE["num_drafts"]]:
            return Counters(server, None, missing and f"{missing}, which a newer release of llama.cpp shows")
        drafted = {field: totals[name] for field, name in SPEC_DECODE.items()}
        places = counters.by_position(text, PER_POSITION)
        per_pos = tuple(places[i] for i in sorted(places))
        return Counters(server, SpecDecodeCounters(**drafted, num_accepted_tokens_per_pos=per_pos))

    def checks(self) -> list[Check]:
        """The wheel, which nothing but this engine needs."""
        return [Check.optional(self.title, version(WHEEL), self.install)]


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


register(LlamaCpp())
