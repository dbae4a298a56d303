"""llama.cpp behind the engine door: its words, its page (recorded: ngram, K=4), its process, its refusals."""

import json
import sys
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from specbook import config, engine
from specbook.config import methods
from specbook.config.schema import Speculation, Target
from specbook.engine import counters, preflight
from specbook.engine.llama_cpp import llama_server
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "data/llama-metrics.txt").read_text()
OF_VLLM = (TESTS / "data/metrics-after.txt").read_text()
UNDRAFTED = "\n".join(
    line.rsplit(" ", 1)[0] + " 0" if line.startswith("llamacpp:spec") else line
    for line in PAGE.splitlines()
    if "per_pos" not in line
)
NGRAM = Speculation(method="ngram", num_speculative_tokens=4)


@pytest.fixture
def folder(tmp_path):
    """Makes a model's folder that holds these files."""

    def make(*names, content=b"GGUF"):
        where = tmp_path / (names[0] if names else "empty")
        where.mkdir()
        (where / "config.json").write_text(json.dumps({"vocab_size": 8, "num_hidden_layers": 2}))
        for name in names:
            (where / name).write_bytes(content)
        return str(where)

    return make


@pytest.fixture
def wheel(monkeypatch):
    """The stand-in for xllamacpp, for the server's process."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS / "engines"))


def served(model, **changes):
    given = {"name": "t", "engine": "llama_cpp", "model": model, "max_model_len": 256, "max_num_seqs": 8}
    return Target(**given | {"dtype": "auto"} | changes)


def llama():
    return engine.for_target(served("x"))


def settings(target, speculation=None):
    line = llama().command(target, speculation, 8123)
    assert line[:3] == [sys.executable, "-P", llama_server.__file__]
    return dict(setting.split("=", 1) for setting in line[3:])


def test_its_counters_in_our_words():
    found = llama().counters(PAGE)
    assert (found.server.prompt_tokens, found.server.generation_tokens) == (81, 16)
    assert (found.server.requests_finished, found.server.queue_time_s) == (None, None)
    drafted = found.spec_decode
    assert (drafted.num_drafts, drafted.num_draft_tokens, drafted.num_accepted_tokens) == (2, 8, 8)
    assert drafted.num_accepted_tokens_per_pos == (2, 2, 2, 2)


def test_positions_appear_with_the_first_draft():
    before, after = llama().counters(UNDRAFTED), llama().counters(PAGE)
    assert before.spec_decode is None
    assert counters.delta(before, after).spec_decode == after.spec_decode
    assert counters.settled(lambda: after, before, finished=2) == after  # at once: it counts no requests


def test_the_pulse_moves_with_a_step():
    moved = PAGE.replace("n_decode_total 8", "n_decode_total 9")
    assert moved != PAGE
    assert llama().pulse(moved).figures != llama().pulse(PAGE).figures


def test_a_page_of_another_engine_names_it():
    with pytest.raises(EngineError, match=r"a page of vLLM, not of llama\.cpp\. To fix: name `engine: vllm`"):
        llama().counters(OF_VLLM)
    with pytest.raises(EngineError, match=r"of llama\.cpp, not of vLLM\. To fix: name `engine: llama_cpp`"):
        engine.for_target(Target(name="v", model="x", max_model_len=64)).counters(PAGE)
    assert llama().page_counters(OF_VLLM, "t") is None


def test_an_older_release_lacks_drafts():
    older = "\n".join(line for line in PAGE.splitlines() if "spec_decode" not in line)
    assert (
        llama()
        .page_counters(older, "t")
        .lacks.startswith("llamacpp:spec_decode_num_drafts_total, which a newer")
    )
    with pytest.raises(EngineError, match="no llamacpp:spec_decode_num_drafts_total: this llama"):
        llama().counters(older)


def test_the_command_says_what_the_target_says(folder):
    model = folder("m-Q4_1.gguf")
    got = settings(served(model))
    assert got["model.path"] == f"{model}/m-Q4_1.gguf"
    assert (got["n_parallel"], got["n_ctx"], got["port"]) == ("8", "2048", "8123")
    assert (got["cache_prompt"], got["sampling.top_k"]) == ("false", "0")
    assert not [name for name in got if name.startswith("speculative")]
    own = served(model, extra_args=("cpuparams.n_threads=2",))
    assert settings(own)["cpuparams.n_threads"] == "2"


@pytest.mark.parametrize(
    ("method", "kind"),
    [("draft_model", "DRAFT_SIMPLE"), ("eagle3", "DRAFT_EAGLE3"), ("ngram", "NGRAM_SIMPLE")],
)
def test_each_method_it_knows_has_its_type(folder, method, kind):
    model, draft = folder("m-F16.gguf"), folder("draft-F16.gguf")
    asked = {"model": draft} if method != "ngram" else {"prompt_lookup_min": 2, "prompt_lookup_max": 2}
    speculation = Speculation(method=method, num_speculative_tokens=3, **asked)
    got = settings(served(model), speculation)
    assert got["speculative.types"] == f"COMMON_SPECULATIVE_TYPE_{kind}"
    simple = [got.get(f"speculative.ngram_simple.size_{one}") for one in "nm"]
    drafting = [got.get(f"speculative.draft.{one}") for one in ("mparams.path", "n_max", "p_min")]
    assert simple == (["2", "3"] if method == "ngram" else [None, None])
    assert drafting == ([None] * 3 if method == "ngram" else [f"{draft}/draft-F16.gguf", "3", "0.0"])
    in_graph = got.get("speculative.draft.backend_sampling")  # which mixes up requests that draft together
    assert in_graph == (None if method == "ngram" else "false")
    assert llama().refusal(served(model), speculation) is None


def test_it_knows_three_methods():
    assert {method.title for method in methods.known() if llama().knows(method)} == {
        "ngram", "draft model", "EAGLE-3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"method": "suffix"}, "does not draft by suffix here. To fix: use draft_model, eagle3, ngram, or"),
        ({"method": "eagle3", "model": "h", "parallel_drafting": True}, "does not draft by P-EAGLE"),
        ({"method": "ngram", "synthetic_acceptance_rates": (0.5, 0.5, 0.5)}, "plays no acceptance"),
        (
            {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4},
            "one length, not 2 to 4 tokens",
        ),
    ],
)
def test_what_it_cannot_draft_is_refused(folder, asked, words):
    speculation = Speculation(num_speculative_tokens=3, **asked)
    assert words in llama().refusal(served(folder("m.gguf")), speculation)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"execution": "eager"}, "has no `execution: eager`"),
        ({"load_format": "dummy"}, "has no `load_format: dummy`"),
        ({"tensor_parallel_size": 2}, "has no `tensor_parallel_size`"),
        ({"quantization": "Q8_0"}, "m-Q4_1.gguf is not named as of type Q8_0"),
        ({"dtype": "bfloat16"}, "not named as of type bf16, which the plan says"),
    ],
)
def test_a_setting_it_would_ignore_is_refused(folder, changes, words):
    model = folder("m-Q4_1.gguf")
    assert words in llama().refusal(served(model, **changes), None)
    assert llama().refusal(served(model, quantization="Q4_1"), None) is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["m.safetensors"], "holds 0. To fix: "),
        (["a.gguf", "b.gguf"], "holds 2"),
        (None, "is no folder here"),
    ],
)
def test_a_folder_without_one_gguf_is_refused(folder, names, words):
    model = folder(*names) if names else "org/model"
    assert words in llama().refusal(served(model), None)


def test_what_a_run_makes_is_planned_before_it_is_made(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    target = served("build/models/smollm2-135m-q4_1", quantization="Q4_1")
    draft = Speculation(method="eagle3", model="build/head-f32", num_speculative_tokens=2)
    assert llama().refusal(target, draft) is None
    assert "is no folder here" in llama().refusal(served("models/none"), None)


def test_a_gguf_is_not_for_vllm(folder):
    target = served(folder("m.gguf"), engine="vllm")
    assert "vLLM is served safetensors here. To fix: `engine: llama_cpp`" in engine.for_target(
        target
    ).refusal(target, None)


@pytest.mark.parametrize("content", [b"", b"\x08\x00", b"version https://git-lfs.github.com/spec/v1"])
def test_a_file_that_is_no_gguf_is_refused(folder, content):
    with pytest.raises(ConfigError, match=r"m\.gguf is (no GGUF file|a pointer of Git LFS)"):
        preflight.check(served(folder("m.gguf", content=content)), None)
    preflight.check(served(folder("good.gguf")), None)


def test_its_process_starts_counts_and_ends(folder, wheel, tmp_path):
    with Server(served(folder("m.gguf")), NGRAM, api_key="hush", log_dir=tmp_path) as server:
        assert server.counters().spec_decode.num_drafts == 2
        assert "hush" not in " ".join(server.command)
        assert httpx.get(f"{server.client.url}/metrics", trust_env=False).status_code == 401
        server.pause()
        server.resume()
    assert not server.is_alive()


def test_what_its_process_died_of_is_told(folder, wheel, tmp_path):
    with pytest.raises(EngineError, match="exited with code 1: srv    load_model: failed to load model"):
        Server(served(folder("broken.gguf")), log_dir=tmp_path).__enter__()
    odd = served(folder("m.gguf"), extra_args=("n_paralel=3",))
    with pytest.raises(EngineError, match="'n_paralel=3' is no setting of llama"):
        Server(odd, log_dir=tmp_path).__enter__()


def test_without_the_wheel_it_says_what_installs_it(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(EngineError, match=r"not installed. To fix: pip install 'specbook\[llama-cpp\]'"):
        llama().build()
    (check,) = llama().checks()
    assert (check.name, check.ok, check.value) == ("llama.cpp", None, "none")


def test_the_plan_of_two_engines_is_taken_by_both():
    """The same loads and prompts of each target, and precisions that its engine serves."""
    sweeps = config.load("appendix_engines", "cpu", "full").parts()
    asked = {}
    for sweep in sweeps:
        for target, speculation in sweep.arms():
            assert engine.for_target(target).refusal(target, speculation) is None
        cells = [(load, traffic) for load in sweep.loads(sweep.arms()[0]) for traffic in sweep.traffic()]
        asked.setdefault(sweep.target.name, []).extend(cells)
    vllm, wide, narrow = asked.values()
    assert vllm == wide == narrow
    assert {sweep.target.engine for sweep in sweeps} == {"vllm", "llama_cpp"}
