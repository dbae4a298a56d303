"""TensorRT-LLM's PyTorch backend, by its documentation: nothing of it was run here, and no number is ours.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.

Sources, read on 2026-11-26, all of https://github.com/NVIDIA/TensorRT-LLM: docs/source/features/
speculative-decoding.md at 04c8822c (options), tensorrt_llm/commands/serve.py at 00209af1 (arguments), and
tensorrt_llm/metrics/collector.py at 050f80de (names of metrics, and the statistics of an iteration that each
is summed from).
"""

import json
import sys

from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import counters
from specbook.engine.base import Counters, flags, register
from specbook.engine.other_engine import OtherEngine
from specbook.engine.tensorrt_llm import with_options
from specbook.records.run import ServerCounters, SpecDecodeCounters

TYPES = {"eagle3": "Eagle3", "draft_model": "DraftTarget", "ngram": "NGram"}
"""Its `decoding_type` by method. It has others that no plan names: MTP, PARD, DFlash, SA."""
SERVER = {
    "prompt_tokens": "trtllm_prompt_tokens_total",
    "generation_tokens": "trtllm_generation_tokens_total",
    "requests_finished": "trtllm_request_success_total",
    "prefix_cache_hits": "trtllm_prompt_cached_tokens_total",
    "queue_time_s": "trtllm_request_queue_time_seconds_sum",
}
BY_POSITION = ("trtllm_spec_decode_drafted_tokens_total", "trtllm_spec_decode_accepted_tokens_total")
"""Drafted and accepted tokens, by `token_position` from 0, of requests that have finished."""
OF_ITERATIONS = "trtllm_spec_decode_num_draft_tokens_total"
"""`specDecodingStats.numDraftTokens` of each iteration, summed: of releases that tell no positions."""
LENGTH = "trtllm_spec_decode_acceptance_length"
"""Gauge: `specDecodingStats.acceptanceLength` of the last iteration."""


class TensorRtLlm(OtherEngine):
    """`trtllm-serve` on a GPU machine."""

    name = "tensorrt_llm"
    title = "TensorRT-LLM"
    packages = ("tensorrt-llm",)
    install = "run in NVIDIA's image tensorrt-llm/release"
    variables = ("TRTLLM_", "TLLM_", "CUDA_VISIBLE_DEVICES")
    drafts_by = TYPES
    prefix = "trtllm_"
    prompt_tokens = SERVER["prompt_tokens"]
    release = "1.3"
    queued = ("trtllm_num_requests_running", "trtllm_num_requests_waiting")
    prefill = "trtllm_request_prefill_time_seconds"
    counters_path = "/prometheus/metrics"

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods that it has not, and what is vLLM's own."""
        if target.router_noise or target.quantization or target.load_format == "dummy":
            return "TensorRT-LLM serves a checkpoint as it is. To fix: leave out quantization, noise, dummies"
        if speculation and speculation.revision:
            return "TensorRT-LLM takes no revision of a draft. To fix: download it and name its folder"
        return super().refusal(target, speculation)

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """`trtllm-serve MODEL ...` through `with_options`, with counters on and its prefix cache off."""
        options = {
            "host": "127.0.0.1", "port": port, "backend": "pytorch", "max_batch_size": target.max_num_seqs,
            "max_seq_len": target.max_model_len, "tp_size": target.tensor_parallel_size,
            "revision": target.revision,
        }  # fmt: skip
        wrapped = [sys.executable, "-P", with_options.__file__, json.dumps(_file(target, speculation))]
        return [*wrapped, resolve_model(target.model), *flags(options), *target.extra_args]

    def page_counters(self, text: str, model: str) -> Counters | None:
        """Counters of any release; it knows pauses of requests, and counts none."""
        totals = counters.totals(text, self.prefix)
        if not totals:
            return None
        server = ServerCounters(**{field: totals[name] for field, name in SERVER.items()}, preemptions=0)
        drafted, accepted = (counters.by_position(text, name, "token_position") for name in BY_POSITION)
        if drafted:
            per_pos = tuple(accepted[i] for i in range(max(drafted) + 1))
            drafts = SpecDecodeCounters(
                num_drafts=drafted[0], num_draft_tokens=drafted.total(), num_accepted_tokens=sum(per_pos),
                num_accepted_tokens_per_pos=per_pos,
            )  # fmt: skip
            return Counters(server, drafts)
        own = f"; its own mean, of its last iteration, is {totals[LENGTH]:.2f} tokens/step"
        return Counters(server, None, f"drafts and positions{own}" if totals[OF_ITERATIONS] else None)


def _file(target: Target, speculation: Speculation | None) -> dict[str, object]:
    """What `--config` reads."""
    options: dict[str, object] = {
        "return_perf_metrics": True, "enable_iter_perf_stats": True,
        "kv_cache_config": {"enable_block_reuse": False},
        "dtype": target.dtype,
        **({"cuda_graph_config": None} if target.execution == "eager" else {}),
    }  # fmt: skip
    if speculation is None:
        return options
    drafting = {
        "decoding_type": TYPES[speculation.method],
        "max_draft_len": speculation.num_speculative_tokens,
    }
    if speculation.model is not None:
        drafting["speculative_model"] = resolve_model(speculation.model)
    else:  # its pools are of one request, as vLLM's are
        drafting |= {"max_matching_ngram_size": speculation.prompt_lookup_max or 2, "is_public_pool": False}
    chained = {"disable_overlap_scheduler": True} if speculation.method != "eagle3" else {}
    return options | {"speculative_config": drafting} | chained


register(TensorRtLlm())
