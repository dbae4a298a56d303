"""SGLang as an engine; see `engine.base` for what each of these is.

Arguments and names of metrics are those of the wheel sglang 0.5.23 (srt/arg_groups/fields, srt/observability/
metrics_collector.py); what they mean is said in https://docs.sglang.io/docs/advanced_features/
speculative_decoding and https://docs.sglang.io/docs/references/production_metrics, read on 2026-11-26.
"""

import sys
from importlib import metadata
from itertools import chain

from specbook.config.methods import Method
from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import prometheus, refusals, server_log
from specbook.engine.base import Build, Check, Counters, Pulse, inherited
from specbook.errors import EngineError
from specbook.records.run import ServerCounters

OWN = "sglang:"
ALGORITHMS = {"eagle": "EAGLE", "eagle3": "EAGLE3", "draft_model": "STANDALONE", "ngram": "NGRAM"}
"""Its `--speculative-algorithm` by method. It has others that no plan names: NEXTN (MTP), DFLASH."""
SERVER = {
    "prompt_tokens": "sglang:prompt_tokens_total",
    "generation_tokens": "sglang:generation_tokens_total",
    "requests_finished": "sglang:num_requests_total",
    "prefix_cache_hits": "sglang:cached_tokens_total",
    "preemptions": "sglang:num_retracted_requests_total",
    "queue_time_s": "sglang:queue_time_seconds_sum",
}
DRAFTS = "sglang:spec_verify_calls_total"
"""Verification steps, summed over requests that have finished: drafts, in our words."""
LENGTH = "sglang:spec_accept_length"
"""Gauge: accepted draft tokens and the bonus token a step, a mean over the last decode steps."""


class Sglang:
    """SGLang's OpenAI-compatible server on a GPU machine."""

    name = "sglang"
    title = "SGLang"
    packages = ("sglang",)
    key_variable = None
    lock_arguments = ()
    health_path = "/health"
    counters_path = "/metrics"
    load_tool = profiler = None
    last_words = staticmethod(server_log.last_words)

    def build(self) -> Build:
        """The package that is installed; raises EngineError if none is."""
        try:
            return Build(self.name, metadata.version(self.name), "accelerator")
        except metadata.PackageNotFoundError as error:
            raise EngineError(
                "SGLang is not installed. To fix: pip install sglang, on a GPU machine"
            ) from error

    def knows(self, method: type[Method]) -> bool:
        """EAGLE of either generation, a draft model and ngram; none with parallel drafting."""
        return method.name in ALGORITHMS and not method.parallel_drafting

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods that it has not, and what is vLLM's own."""
        if target.router_noise:
            return "SGLang puts no noise into a router. To fix: leave router_noise out, or `engine: vllm`"
        if speculation and (speculation.prompt_lookup_min or speculation.prompt_lookup_max):
            return "SGLang takes no length of a lookup. To fix: leave prompt_lookup_min and _max out"
        return refusals.of_draft(self, speculation)

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """`python -m sglang.launch_server ...`, without its prefix cache and a model's own sampling."""
        options = {
            "model-path": resolve_model(target.model), "served-model-name": target.name,
            "host": "127.0.0.1", "port": port, "dtype": target.dtype, "context-length": target.max_model_len,
            "max-running-requests": target.max_num_seqs, "tp-size": target.tensor_parallel_size,
            "random-seed": 0, "sampling-defaults": "openai", "quantization": target.quantization,
            "revision": target.revision, "load-format": target.load_format,
            **(_drafting(speculation) if speculation else {}),
        }  # fmt: skip
        given = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
        eager = [f"--cuda-graph-backend-{step}=disabled" for step in ("decode", "prefill")]
        flags = ["--disable-radix-cache", "--enable-metrics", *(eager if target.execution == "eager" else [])]
        return [sys.executable, "-m", "sglang.launch_server", *chain(*given), *flags, *target.extra_args]

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """The caller's variables that matter to it; none of ours."""
        return inherited(("SGLANG_", "CUDA_VISIBLE_DEVICES"))

    def counters(self, text: str) -> Counters:
        """From Prometheus text. A counter appears with the first request that moves it, so none is demanded.

        Raises:
            EngineError: for a page of another engine.
        """
        if (found := self.page_counters(text, "")) is None:
            raise EngineError(prometheus.lacking(text, SERVER["prompt_tokens"], self.title, "0.5.23"))
        return found

    def page_counters(self, text: str, model: str) -> Counters | None:
        """Counters of any release: how often it verified, and no count of draft tokens (see `lacks`)."""
        totals = prometheus.totals(text, OWN)
        if not totals:
            return None
        server = ServerCounters(**{field: totals[name] for field, name in SERVER.items()})
        drafts = totals[DRAFTS] or totals[LENGTH]
        own = f"; its own mean, of its last steps, is {totals[LENGTH]:.2f} tokens/step"
        return Counters(server, None, f"draft tokens, accepted ones and positions{own}" if drafts else None)

    def pulse(self, text: str) -> Pulse:
        """The pulse: its gauges move every few dozen steps."""
        figures = tuple(line for line in text.splitlines() if line.startswith(OWN))
        queued, first = (prometheus.totals(text, OWN + name) for name in ("num_", "time_to_first_token"))
        first_s, firsts = (first[f"sglang:time_to_first_token_seconds_{end}"] for end in ("sum", "count"))
        requests = queued["sglang:num_running_reqs"] + queued["sglang:num_queue_reqs"]
        return Pulse(figures, requests, first_s / firsts if firsts else 0.0)

    def checks(self) -> list[Check]:
        """Nothing: where it is not installed nothing is missing."""
        return []


def _drafting(speculation: Speculation) -> dict[str, object]:
    """A chain of K draft tokens; SGLang counts the last accepted token among those it verifies."""
    k = speculation.num_speculative_tokens
    options: dict[str, object] = {
        "speculative-algorithm": ALGORITHMS[speculation.method],
        "speculative-num-draft-tokens": k + 1,
    }
    if speculation.model is None:
        return options | {"speculative-ngram-max-bfs-breadth": 1}
    return options | {
        "speculative-draft-model-path": resolve_model(speculation.model),
        "speculative-draft-model-revision": speculation.revision,
        "speculative-num-steps": k,
        "speculative-eagle-topk": 1,
    }
