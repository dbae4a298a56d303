"""SGLang, by its documentation: nothing of it was run here, and no number of it is the project's.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.

Arguments and names of metrics are those of the wheel sglang 0.5.23 (srt/arg_groups/fields, srt/observability/
metrics_collector.py); what they mean is said in https://docs.sglang.io/docs/advanced_features/
speculative_decoding and https://docs.sglang.io/docs/references/production_metrics, read on 2026-11-26.
"""

import sys

from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import counters
from specbook.engine.base import Counters, flags, register
from specbook.engine.other_engine import OtherEngine
from specbook.records.run import ServerCounters

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


class Sglang(OtherEngine):
    """SGLang's OpenAI-compatible server on a GPU machine."""

    name = "sglang"
    title = "SGLang"
    packages = ("sglang",)
    install = "pip install sglang, on a GPU machine"
    variables = ("SGLANG_", "CUDA_VISIBLE_DEVICES")
    drafts_by = ALGORITHMS
    prefix = "sglang:"
    prompt_tokens = SERVER["prompt_tokens"]
    release = "0.5.23"
    queued = ("sglang:num_running_reqs", "sglang:num_queue_reqs")
    prefill = "sglang:time_to_first_token_seconds"

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods that it has not, and what is vLLM's own."""
        if target.router_noise:
            return "SGLang puts no noise into a router. To fix: leave router_noise out, or `engine: vllm`"
        if speculation and (speculation.prompt_lookup_min or speculation.prompt_lookup_max):
            return "SGLang takes no length of a lookup. To fix: leave prompt_lookup_min and _max out"
        return super().refusal(target, speculation)

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
        steps = ("decode", "prefill") if target.execution == "eager" else ()
        eager = [f"--cuda-graph-backend-{step}=disabled" for step in steps]
        switches = ["--disable-radix-cache", "--enable-metrics", *eager]
        return [sys.executable, "-m", "sglang.launch_server", *flags(options), *switches, *target.extra_args]

    def page_counters(self, text: str, model: str) -> Counters | None:
        """Counters of any release: how often it verified, and no count of draft tokens (see `lacks`)."""
        totals = counters.totals(text, self.prefix)
        if not totals:
            return None
        server = ServerCounters(**{field: totals[name] for field, name in SERVER.items()})
        drafts = totals[DRAFTS] or totals[LENGTH]
        own = f"; its own mean, of its last steps, is {totals[LENGTH]:.2f} tokens/step"
        return Counters(server, None, f"draft tokens, accepted ones and positions{own}" if drafts else None)


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


register(Sglang())
