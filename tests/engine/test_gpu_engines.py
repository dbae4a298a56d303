"""SGLang and TensorRT-LLM, as far as they can be tried without a GPU: command lines, pages, refusals.

The pages have the names and labels that each writes (sources in their modules), and made-up values.
"""

import json
from pathlib import Path

import pytest

from specbook import engine
from specbook.config import machines, methods
from specbook.config.schema import Speculation, Target
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError

OF_SGLANG = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{engine_type="unified",model_name="m"} 900.0
sglang:generation_tokens_total{engine_type="unified",model_name="m"} 400.0
sglang:spec_verify_calls_total{engine_type="unified",model_name="m"} 130.0
sglang:cached_tokens_total{cache_source="device",engine_type="unified",model_name="m"} 64.0
sglang:cached_tokens_total{cache_source="host",engine_type="unified",model_name="m"} 16.0
sglang:num_requests_total{engine_type="unified",model_name="m"} 10.0
sglang:num_retracted_requests_total{engine_type="unified",model_name="m",tp_rank="0"} 1.0
sglang:queue_time_seconds_sum{engine_type="unified",model_name="m",tp_rank="0"} 0.25
sglang:queue_time_seconds_count{engine_type="unified",model_name="m",tp_rank="0"} 10.0
sglang:time_to_first_token_seconds_sum{engine_type="unified",model_name="m"} 2.0
sglang:time_to_first_token_seconds_count{engine_type="unified",model_name="m"} 10.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 2.0
sglang:spec_accept_length{engine_type="unified",model_name="m",tp_rank="0"} 3.125
"""
OF_TRTLLM = """\
# HELP trtllm_request_success_total Count of successfully processed requests.
# TYPE trtllm_request_success_total counter
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="m"} 7.0
trtllm_request_success_total{engine_type="trtllm",finished_reason="length",model_name="m"} 3.0
trtllm_prompt_tokens_total{engine_type="trtllm",model_name="m"} 900.0
trtllm_generation_tokens_total{engine_type="trtllm",model_name="m"} 400.0
trtllm_prompt_cached_tokens_total{engine_type="trtllm",model_name="m"} 0.0
trtllm_request_queue_time_seconds_sum{engine_type="trtllm",model_name="m"} 0.5
trtllm_request_prefill_time_seconds_sum{engine_type="trtllm",model_name="m"} 1.0
trtllm_request_prefill_time_seconds_count{engine_type="trtllm",model_name="m"} 10.0
trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 4.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 1.0
trtllm_spec_decode_num_draft_tokens_total{engine_type="trtllm",model_name="m"} 390.0
trtllm_spec_decode_num_accepted_tokens_total{engine_type="trtllm",model_name="m"} 260.0
trtllm_spec_decode_acceptance_length{engine_type="trtllm",model_name="m"} 2.5
"""
POSITIONS = """\
trtllm_spec_decode_drafted_tokens_total{engine_type="trtllm",model_name="m",token_position="0"} 130.0
trtllm_spec_decode_drafted_tokens_total{engine_type="trtllm",model_name="m",token_position="1"} 130.0
trtllm_spec_decode_drafted_tokens_total{engine_type="trtllm",model_name="m",token_position="2"} 130.0
trtllm_spec_decode_drafted_tokens_created{engine_type="trtllm",model_name="m",token_position="2"} 1.7e+09
trtllm_spec_decode_accepted_tokens_total{engine_type="trtllm",model_name="m",token_position="0"} 120.0
trtllm_spec_decode_accepted_tokens_total{engine_type="trtllm",model_name="m",token_position="1"} 90.0
"""
DATA = Path(__file__).parents[1] / "data"
ARGUMENTS = {
    "sglang": DATA / "sglang-arguments.txt", "tensorrt_llm": DATA / "trtllm-arguments.txt",
}  # fmt: skip
"""What each takes, by its own source; the first line of each file says which."""
PAGES = {"sglang": OF_SGLANG, "tensorrt_llm": OF_TRTLLM + POSITIONS}
TARGET = Target(name="t", model="org/t", max_model_len=4096, max_num_seqs=16, tensor_parallel_size=2)
EAGLE3 = Speculation(method="eagle3", model="org/head", num_speculative_tokens=5)
NGRAM = Speculation(method="ngram", num_speculative_tokens=5)
PROFILES = [
    profile
    for hardware in ("h100", "h200")
    for profile in machines.profiles(hardware).values()
    if isinstance(profile, machines.Profile)
]


def of(name, **changes):
    target = TARGET.model_copy(update={"engine": name, **changes})
    return engine.for_target(target), target


def options(line):
    return {a: b for a, b in zip(line, [*line[1:], ""], strict=True) if a.startswith("--")}


def test_sglang_is_told_what_the_plan_says():
    sglang, target = of("sglang", execution="eager")
    got = options(sglang.command(target, EAGLE3, 8000))
    want = {
        "--model-path": "org/t", "--served-model-name": "t", "--port": "8000", "--context-length": "4096",
        "--max-running-requests": "16", "--tp-size": "2", "--speculative-algorithm": "EAGLE3",
        "--speculative-draft-model-path": "org/head", "--speculative-num-steps": "5",
        "--speculative-eagle-topk": "1", "--speculative-num-draft-tokens": "6",
    }  # fmt: skip
    assert want.items() <= got.items()
    assert {"--disable-radix-cache", "--enable-metrics", "--cuda-graph-backend-decode=disabled"} <= set(got)
    assert options(sglang.command(target, NGRAM, 8000))["--speculative-algorithm"] == "NGRAM"
    assert "--speculative-algorithm" not in options(sglang.command(target, None, 8000))


def test_trtllm_is_told_what_the_plan_says():
    trtllm, target = of("tensorrt_llm")
    line = trtllm.command(target, EAGLE3, 8000)
    file = json.loads(line[3])
    assert file["speculative_config"] == {
        "decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "org/head",
    }  # fmt: skip
    assert (file["return_perf_metrics"], file["kv_cache_config"]["enable_block_reuse"]) == (True, False)
    assert line[4] == "org/t"
    want = {"--port": "8000", "--max_batch_size": "16", "--max_seq_len": "4096", "--tp_size": "2"}
    assert want.items() <= options(line).items()
    by_ngram = json.loads(trtllm.command(target, NGRAM, 8000)[3])
    assert by_ngram["speculative_config"]["decoding_type"] == "NGram"
    assert by_ngram["disable_overlap_scheduler"]
    assert "speculative_config" not in json.loads(trtllm.command(target, None, 8000)[3])


@pytest.mark.parametrize("name", PAGES)
def test_every_profile_has_a_command_line(name):
    served, taken = 0, set(ARGUMENTS[name].read_text().splitlines())
    for profile in PROFILES:
        its = engine.for_target(profile.target.model_copy(update={"engine": name}))
        if profile.speculation is None or its.knows(profile.speculation.drafting):
            command = its.command(profile.target, profile.speculation, 8000)
            own = set(command) - set(profile.target.extra_args)  # what it adds of its own accord
            assert {one.partition("=")[0] for one in own if one.startswith("--")} <= taken
            line = " ".join(command)
            assert profile.target.model in line
            assert profile.speculation is None or profile.speculation.model in line
            served += 1
    assert served > len(PROFILES) / 2


@pytest.mark.parametrize(
    ("name", "finished", "cached", "queued_s"), [("sglang", 10, 80, 0.25), ("tensorrt_llm", 10, 0, 0.5)]
)
def test_their_counters_in_our_words(name, finished, cached, queued_s):
    found = of(name)[0].counters(PAGES[name]).server
    assert (found.prompt_tokens, found.generation_tokens, found.requests_finished) == (900, 400, finished)
    assert (found.prefix_cache_hits, found.queue_time_s) == (cached, queued_s)


def test_sglang_names_its_own_mean():
    found = of("sglang")[0].counters(OF_SGLANG)
    assert found.spec_decode is None
    assert found.lacks.endswith("its own mean, of its last steps, is 3.12 tokens/step")
    plain = "\n".join(line for line in OF_SGLANG.splitlines() if "spec_" not in line)
    assert of("sglang")[0].counters(plain).lacks is None


def test_trtllm_counts_by_position():
    drafted = of("tensorrt_llm")[0].counters(OF_TRTLLM + POSITIONS).spec_decode
    assert (drafted.num_drafts, drafted.num_draft_tokens, drafted.num_accepted_tokens) == (130, 390, 210)
    assert drafted.num_accepted_tokens_per_pos == (120, 90, 0)


def test_iterations_alone_give_trtllms_own_mean():
    found = of("tensorrt_llm")[0].counters(OF_TRTLLM)
    assert found.spec_decode is None
    assert found.lacks == "drafts and positions; its own mean, of its last iteration, is 2.50 tokens/step"


@pytest.mark.parametrize(("name", "requests", "prefill_s"), [("sglang", 5, 0.2), ("tensorrt_llm", 5, 0.1)])
def test_their_pulse(name, requests, prefill_s):
    pulse = of(name)[0].pulse(PAGES[name])
    assert (pulse.requests, pulse.mean_prefill_s) == (requests, prefill_s)


@pytest.mark.parametrize("name", PAGES)
def test_another_engines_page_is_named(name):
    (other,) = set(PAGES) - {name}
    with pytest.raises(EngineError, match=f"To fix: name `engine: {other}`"):
        of(name)[0].counters(PAGES[other])
    assert of(name)[0].page_counters("<html>no page of counters</html>", "t") is None


def test_what_each_knows():
    known = {
        name: {method.title for method in methods.known() if of(name)[0].knows(method)} for name in PAGES
    }
    assert known["sglang"] == {"EAGLE", "EAGLE-3", "draft model", "ngram"}
    assert known["tensorrt_llm"] == {"EAGLE-3", "draft model", "ngram"}


@pytest.mark.parametrize(
    ("name", "speculation", "words"),
    [
        (
            "sglang",
            {"method": "suffix"},
            "SGLang does not draft by suffix here. To fix: use draft_model, eagle",
        ),
        ("sglang", {"method": "ngram", "prompt_lookup_max": 4}, "SGLang takes no length of a lookup"),
        ("tensorrt_llm", {"method": "eagle", "model": "h"}, "TensorRT-LLM does not draft by EAGLE here"),
        ("tensorrt_llm", {"method": "eagle3", "model": "h", "revision": "0" * 40}, "no revision of a draft"),
    ],
)
def test_what_they_cannot_do_is_refused(name, speculation, words):
    its, target = of(name)
    assert words in its.refusal(target, Speculation(num_speculative_tokens=3, **speculation))
    assert its.refusal(target, EAGLE3) is None


@pytest.mark.parametrize("name", PAGES)
def test_neither_takes_a_key_that_others_could_read(name, tmp_path):
    with pytest.raises(ConfigError, match="where other users could read it"):
        Server(of(name)[1], api_key="hush", log_dir=tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_without_the_package_it_says_so(name):
    with pytest.raises(EngineError, match=r"is not installed\. To fix: "):
        of(name)[0].build()
