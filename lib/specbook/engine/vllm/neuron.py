"""vLLM 0.9.1 over NxD Inference, AWS's older stack for Neuron chips: what it takes other words for.

Nothing of it was run here: flags and variables are those of AWS's sample (aws-neuron/aws-neuron-eks-samples,
speculative_decoding_trn2_vllm at a7e41d16) and of vLLM 0.9's own loader and example (vllm/model_executor/
model_loader/neuronx_distributed.py, examples/offline_inference/neuron_eagle.py). The newer stack, the vLLM
Neuron plugin, is served by `Vllm` as it is.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from specbook import paths
from specbook.config.methods import Method
from specbook.config.schema import Speculation, Target, digest, resolve_model
from specbook.engine.base import Build, Check, Counters, version
from specbook.engine.vllm import telemetry
from specbook.engine.vllm.engine import Vllm
from specbook.errors import EngineError

LIBRARY = "neuronx-distributed-inference"
MODES = {"draft_model": {}, "eagle": {"enable_eagle_speculation": True}}
"""What `--override-neuron-config` needs beside a draft, by method: a whole draft model, or a head. Either is
compiled into one graph with the target (fused), since the loader of vLLM 0.9 knows nothing else.
"""
ARTIFACTS = "NEURON_COMPILED_ARTIFACTS"
"""Variable of the folder with compiled graphs; the caller's value is where all servers' folders lie."""


class NxdInference(Vllm):
    """vLLM's OpenAI server of the Neuron image; see `engine.base` for what each of these is."""

    name = "vllm-nxdi"
    title = "vLLM over NxD Inference"
    load_tool = profiler = None

    def build(self) -> Build:
        """The library that is installed; raises EngineError if none is."""
        if installed := version(LIBRARY):
            return Build(LIBRARY, installed, "accelerator")
        raise EngineError(
            "NxD Inference is not installed: run in AWS's image pytorch-inference-vllm-neuronx (SDK 2.26 has "
            "vLLM 0.9.1), with this project beside it"
        )

    def knows(self, method: type[Method]) -> bool:
        """Those of its graphs."""
        return method.name in MODES

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Methods that it does not know, random weights, acceptance that is played, and K by batch."""
        if target.load_format == "dummy" or (speculation and speculation.synthetic_acceptance_rates):
            return f"{self.title} loads no random weights and plays no acceptance: use real models"
        if speculation and speculation.num_speculative_tokens_per_batch_size:
            return (
                f"{self.title} compiles one K into its graph: name no num_speculative_tokens_per_batch_size"
            )
        if speculation is None or self.knows(speculation.drafting):
            return None
        return (
            f"{self.title} drafts with {' or '.join(MODES)}, not with {speculation.method!r}: Medusa and "
            "drafts compiled apart are reached through the library itself, EAGLE-3 through the vLLM Neuron "
            "plugin (engine: vllm)"
        )

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """vLLM's line; a draft has no method here: the neuron config says whether it is a head."""
        line, neuron = super().command(target, None, port), {"save_sharded_checkpoint": True}
        if speculation is not None:
            neuron |= {"enable_fused_speculation": True, **MODES.get(speculation.method, {})}
            draft = {
                "model": resolve_model(speculation.model or ""),
                "num_speculative_tokens": speculation.num_speculative_tokens,
                "max_model_len": target.max_model_len,
            }
            line += ["--speculative-config", json.dumps(draft)]
        return [*line, "--override-neuron-config", json.dumps(neuron)]

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """The framework, and a folder of compiled graphs for this server alone.

        The loader takes whatever lies there for its own: two K in one folder would be one K twice.
        """
        given = super().environment(target, speculation)
        top = Path(os.environ.get(ARTIFACTS) or paths.build_dir() / "neuron")
        own = digest([target.model_dump(), speculation.model_dump() if speculation else None], 12)
        return given | {"VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference", ARTIFACTS: str(top / own)}

    def counters(self, text: str) -> Counters:
        """As vLLM's; this release counts no hits of a prefix cache, and its graph shows no drafts."""
        return telemetry.read(text, uncounted=("prefix_cache_hits",))

    def page_counters(self, text: str, model: str) -> None:
        """Nothing: its page is a vLLM's, and none of its lines tells what it computes on."""

    def checks(self) -> Iterator[Check]:
        """Only where it is installed: elsewhere nothing is missing."""
        if installed := version(LIBRARY):
            yield Check.needed(self.title, installed, "")
