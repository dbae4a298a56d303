"""vLLM over NxD Inference, as far as it can be tried without a Neuron chip: words, folders, refusals."""

import json
from pathlib import Path

import pytest

from specbook import config, engine
from specbook.bench import hardware
from specbook.config import machines
from specbook.config.schema import Speculation, Target
from specbook.engine.vllm.neuron import ARTIFACTS, NxdInference
from specbook.errors import EngineError
from specbook.records.run import NEUTRAL

METRICS = Path(__file__).parents[1] / "data" / "metrics-after.txt"
TARGET = Target(name="t", model="org/t", engine="vllm-nxdi", max_model_len=1024, max_num_seqs=4)


def drafted(method: str, k: int = 7) -> Speculation:
    return Speculation(method=method, model="org/draft", num_speculative_tokens=k)


def option(line: list[str], name: str) -> dict:
    return json.loads(line[line.index(name) + 1])


@pytest.fixture
def nxdi() -> NxdInference:
    return engine.for_target(TARGET)


def test_without_a_draft_one_option_is_added(nxdi):
    line = nxdi.command(TARGET, None, 8000)
    assert line[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert option(line, "--override-neuron-config") == {"save_sharded_checkpoint": True}
    assert "--speculative-config" not in line


@pytest.mark.parametrize(("method", "is_head"), [("draft_model", False), ("eagle", True)])
def test_a_draft_is_compiled_with_its_target(nxdi, method, is_head):
    line = nxdi.command(TARGET, drafted(method), 8000)
    assert option(line, "--speculative-config") == {
        "model": "org/draft", "num_speculative_tokens": 7, "max_model_len": 1024,
    }  # fmt: skip
    neuron = option(line, "--override-neuron-config")
    assert neuron["enable_fused_speculation"]
    assert neuron.get("enable_eagle_speculation", False) is is_head


@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_what_it_does_not_know_is_refused_with_the_way_out(nxdi, method):
    model = {"model": "org/draft"} if method == "eagle3" else {}
    asked = Speculation(method=method, num_speculative_tokens=3, **model)
    assert f"not with '{method}'" in nxdi.refusal(TARGET, asked)
    assert nxdi.refusal(TARGET, drafted("draft_model")) is None
    assert nxdi.refusal(TARGET, None) is None
    assert "no random weights" in nxdi.refusal(TARGET.model_copy(update={"load_format": "dummy"}), None)
    played = drafted("draft_model").model_copy(update={"synthetic_acceptance_rates": (0.5,)})
    assert "plays no acceptance" in nxdi.refusal(TARGET, played)
    by_batch = {"num_speculative_tokens_per_batch_size": ((1, 1, 7), (2, 4, 0))}
    assert "compiles one K" in nxdi.refusal(TARGET, drafted("draft_model").model_copy(update=by_batch))


def test_each_server_has_compiled_graphs_of_its_own(nxdi, monkeypatch):
    monkeypatch.setenv(ARTIFACTS, "volume/graphs")
    arms = [(TARGET, s) for s in (None, drafted("draft_model", 5), drafted("draft_model", 7))]
    found = [nxdi.environment(*arm)[ARTIFACTS] for arm in arms]
    assert len(set(found)) == 3
    assert {str(Path(one).parent) for one in found} == {"volume/graphs"}
    assert found[0] == nxdi.environment(TARGET, None)[ARTIFACTS]
    assert nxdi.environment(TARGET, None)["VLLM_NEURON_FRAMEWORK"] == "neuronx-distributed-inference"
    assert ARTIFACTS in NEUTRAL  # else arms, which differ in it, could not be compared


def test_counters_that_its_release_lacks_are_none(nxdi):
    text = "".join(
        line for line in METRICS.read_text().splitlines(keepends=True)
        if "spec_decode" not in line and "prefix_cache_hits" not in line
    )  # fmt: skip
    found = nxdi.counters(text)
    assert (found.server.prefix_cache_hits, found.spec_decode) == (0, None)
    assert found.server.generation_tokens > 0
    with pytest.raises(EngineError, match="vllm:prefix_cache_hits_total"):
        engine.for_target(TARGET.model_copy(update={"engine": "vllm"})).counters(text)


def test_where_it_is_not_installed_nothing_is_missing(nxdi):
    assert list(nxdi.checks()) == []
    with pytest.raises(EngineError, match="NxD Inference is not installed"):
        nxdi.build()
    assert hardware.computes_on_cpu()
    assert engine.load_tool() is engine.for_target(TARGET.model_copy(update={"engine": "vllm"})).load_tool


def test_arms_and_profiles_are_those_of_the_sample():
    fused = machines.profile("trn2/nxdi-fused")
    assert fused.speculation.num_speculative_tokens == 7
    assert (fused.target.tensor_parallel_size, fused.target.max_num_seqs) == (32, 4)
    found = config.load("06_trainium", "trn2", "full")
    assert found.arms()[0][0] == fused.target
    assert [s.num_speculative_tokens for _, s in found.arms() if s] == [5, 7, 10, 15]
