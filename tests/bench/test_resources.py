"""What a plan asks of accelerators: every shipped one fits, and what does not is refused with its sum.

Shapes of models that are not here: what is written of them, and what is refused.
"""

import json
import re

import pytest

import factories
from specbook import config, paths
from specbook.bench import campaign, plan_notes, resources
from specbook.config import machines, models
from specbook.config.schema import Speculation, Target
from specbook.errors import ConfigError
from specbook.records import published
from specbook.stats.shape import TargetShape

EACH = [f"{folder}:{one.name}" for folder in config.hardwares() for one in machines.read(folder).serves]
BIG = Target(name="big", model="meta-llama/Llama-3.3-70B-Instruct", max_model_len=8192, max_num_seqs=8)


@pytest.mark.parametrize("hardware", EACH)
def test_every_shipped_model_fits_its_machine_with_its_head(hardware):
    what = machines.read(hardware)
    for target, speculation in config.load("02_eagle3", hardware, "full").arms():
        found = resources.memory_of(what, target, speculation)
        assert found is not None
        assert found.sequences >= 16, found.sum()


def test_closed_loops_with_too_few_requests_are_named():
    enough = [factories.point(concurrency=c, num_requests=n) for c, n in ((1, 1), (8, 64), (32, 300))]
    assert resources.few_requests(enough) is None
    few = [factories.point(concurrency=c, num_requests=n) for c, n in ((32, 64), (8, 63), (32, 64))]
    assert resources.few_requests([*enough, *few]).startswith(
        "64 requests at concurrency 32 of test; 63 requests at concurrency 8 of test: fewer than 8 a slot"
    )
    assert "num_requests to 8: 64, 32: 256 or more" in resources.few_requests(few)


@pytest.mark.parametrize("hardware", config.hardwares())
@pytest.mark.parametrize("group", config.GROUPS)
def test_every_plan_asks_for_full_batches_and_whole_answers(hardware, group):
    names = config.chapters(["all", "appendix"], hardware)
    own = [name for name in names if group in config.read_file(config.file(name, hardware))]
    sweeps = [sweep for name in own for sweep in config.load(name, hardware, group).parts()]
    points = [point for sweep in sweeps for point in sweep.points()]
    assert points
    assert resources.few_requests(points) is None
    assert plan_notes.low_caps(sweeps, points) is None


def test_a_dry_run_says_each_servers_sum():
    plans = [config.load(name, "h200:llama-3.3-70b-fp8", "full") for name in ("01_baseline", "02_eagle3")]
    servers = resources.lines(plans)
    assert len(servers) == 2 + 4  # two baselines, which the chapters share, and a head at four K
    assert all(line.startswith("fits: llama-3.3-70b-fp8, ") for line in servers)
    assert all("at least" in line for line in servers[2:])  # the head's size was not found


def test_pocket_models_are_read_from_their_folders():
    servers = resources.lines([config.load("02_eagle3", "h100", "quick")])
    assert len(servers) == 1 + 2
    assert all(line.startswith("fits: pocket-dense, ") for line in servers)


def test_a_machine_without_a_stated_memory_has_no_sums():
    assert resources.lines([config.load("02_eagle3", "cpu", "quick")]) == []


def test_an_unquantised_70b_does_not_fit_an_h200():
    said = resources.server(machines.read("h200"), BIG, None)
    assert said.startswith("DOES NOT FIT: big, baseline (compiled): weights 141.1 + draft 0.0")
    assert "0 of 8 sequences of 8192 tokens" in said
    assert resources.server(machines.read("b200"), BIG, None).startswith("fits: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor_parallel_size": 16}, "takes 16 devices, and H200 141 GB has 8"),
        ({"tensor_parallel_size": 3}, "3 does not divide 64 attention heads"),
        (
            {"model": "org/unheard-of"},
            "not known: big, baseline .compiled.: no model file names org/unheard-of",
        ),
    ],
)
def test_what_cannot_be_is_said(changes, message):
    assert re.search(message, resources.server(machines.read("h200"), BIG.model_copy(update=changes), None))


def accelerator(**changes):
    given = {"kind": "cuda", "gpu_name": "NVIDIA H200", "gpu_count": 8, "gpu_memory_bytes": 150 * 10**9}
    return factories.HARDWARE.model_copy(update={**given, **changes})


def test_a_campaign_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(campaign, "detect", lambda: accelerator(gpu_memory_bytes=40 * 10**9))
    with pytest.raises(ConfigError, match=r"qwen3-32b-fp8 does not fit NVIDIA H200: weights 3\d\.\d "):
        campaign.measure([config.load("02_eagle3", "h200", "full")])


def test_a_machine_with_too_few_devices_is_refused():
    two = config.load("02_eagle3", "h200:llama-3.3-70b-bf16", "full")
    with pytest.raises(ConfigError, match="tensor_parallel_size 2 takes 2 devices, and NVIDIA H200 has 1"):
        resources.refuse(two, accelerator(gpu_count=1))
    resources.refuse(two, accelerator())
    resources.refuse(two, accelerator(gpu_memory_bytes=None))  # nothing is guessed


def test_a_share_of_ones_own_is_taken():
    own = BIG.model_copy(update={"extra_args": ("--gpu-memory-utilization", "0.5")})
    assert resources.memory_of(machines.read("h200"), own, None).share == 0.5


def test_a_head_that_no_file_names_is_unknown():
    head = Speculation(method="eagle3", model="org/head", num_speculative_tokens=3)
    ngram = Speculation(method="ngram", num_speculative_tokens=3)
    assert resources.drafted(BIG, head) == (None, 1)
    assert resources.drafted(BIG, ngram) == (0.0, 0)


def test_an_unknown_gpu_has_no_seconds_and_no_price():
    what = machines.read("h200").model_copy(update={"peak": "NVIDIA H300", "price": None})
    assert resources.seconds(what, config.load("02_eagle3", "h200", "full").points()[0]) is None
    assert "names no price" in resources.dollars(what, 1, 2.0)
    assert "about $7 at Nebius H200, $3.50 an hour (2026-11-28)" in resources.dollars(
        machines.read("h200"), 1, 2.0
    )


def test_seconds_by_hand():
    point = config.load("02_eagle3", "h200", "full").points()[0]
    known = TargetShape.of(point.target, *models.stored(point.target))
    read = known.shape.weight_bytes(2, 1, 1) + point.load.concurrency * known.shape.kv_bytes(512, 2)
    turns = point.load.num_requests + point.load.num_warmups
    assert resources.seconds(machines.read("h200"), point) == pytest.approx(turns * 512 * read / 4.8e12)


def test_a_model_of_an_unknown_kind_is_not_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba", "dtype": "bfloat16"}')
    own = BIG.model_copy(update={"model": str(tmp_path)})
    assert TargetShape.of(own, *models.stored(own)) is None
    assert resources.server(machines.read("h200"), own, None).startswith("not known: big")


# shapes

PLAN = "appendix_break_even"


def test_the_heads_file_is_as_large_as_its_shape():
    c, target = models.shape("qwen3-32b-eagle3"), models.shape("qwen3-32b-bf16")
    hidden, inner, draft, vocab = (
        c[k] for k in ("hidden_size", "intermediate_size", "draft_vocab_size", "vocab_size")
    )
    attention = 2 * hidden * c["head_dim"] * (c["num_attention_heads"] + 2 * c["num_key_value_heads"])
    out = c["num_attention_heads"] * c["head_dim"] * hidden
    weights = attention + out + 3 * hidden * inner + 3 * hidden**2 + (vocab + draft) * hidden + 4 * hidden
    mapping = 8 * draft + vocab  # an int64 per draft token, a bool per token
    size = models.load("qwen3-32b").heads["eagle3"].weight_bytes
    assert 0 < size - (2 * weights + mapping) < 4096
    assert (hidden, vocab) == (target["hidden_size"], target["vocab_size"])


def test_only_quantization_is_added_to_a_config():
    wide, narrow = models.shape("qwen3-32b-bf16"), models.shape("qwen3-32b-fp8")
    assert narrow.pop("quantization_config")["quant_method"] == "compressed-tensors"
    assert narrow == wide


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qwen3-99b-fp8", "no model 'qwen3-99b-fp8' in params/models/"),
        ("qwen3-32b-int4-awq", "no quantization_config of qwen3-32b-int4-awq"),
        ("gpt-oss-120b-eagle3", "no shape of gpt-oss-120b-eagle3"),
    ],
)
def test_a_shape_that_is_not_known_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        models.shape(name)


def test_folders_are_written_for_shapes_and_for_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(paths.models_dir())
    (tmp_path / "params").symlink_to(paths.params_dir())
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    wanted = config.load(PLAN, "h100:qwen3-32b-fp8", "full").models()
    made = resources.make_shapes([*wanted, "models/pocket-dense", "org/hub"])
    assert [folder.name for folder in made] == ["qwen3-32b-fp8", "qwen3-32b-eagle3"]
    assert json.loads((made[1] / "config.json").read_text())["architectures"] == ["LlamaForCausalLMEagle3"]
    assert all((folder / "tokenizer.json").is_file() for folder in made)
    assert not list(tmp_path.glob("build/**/*.safetensors"))
    (tmp_path / "models").unlink()
    with pytest.raises(ConfigError, match="takes the tokenizer of models/pocket-dense, which is not there"):
        resources.make_shapes(wanted)


def test_a_machines_plan_serves_its_models_shape_with_its_heads():
    found = config.load(PLAN, "h200:llama-3.3-70b-fp8", "full")
    target, (first, *_) = found.parts()[0].target, found.parts()[0].speculations()
    assert (target.model, target.load_format) == ("build/shapes/llama-3.3-70b-fp8", "dummy")
    assert target.revision is None
    assert first.model == "build/shapes/llama-3.3-70b-eagle3"
    with pytest.raises(ConfigError, match="no shape of gpt-oss-120b-eagle3: add it"):
        config.load(PLAN, "h200:gpt-oss-120b-mxfp4", "full")


def test_a_shapes_memory_counts_its_head():
    resources.make_shapes(config.load(PLAN, "h100:qwen3-32b-fp8", "full").models())
    lines = resources.lines([config.load(PLAN, "h100:qwen3-32b-fp8", "full")])
    assert all(line.startswith("fits: ") for line in lines)
    assert all("draft 3.1" in line for line in lines[1:])


@pytest.mark.parametrize("hardware", ["cpu", "h100:qwen3-32b-fp8"])
def test_the_rates_that_are_played_are_the_published_ones(hardware):
    held = {(row.target_model, row.dataset, row.metric): row.number for row in published.load()}
    strong = [held["Qwen3.8-27B", "GSM8K", f"acceptance_pos_{i}"] for i in range(8)]
    weak = [held["Gemma-4-31B", "qa", f"acceptance_pos_{i}_pct"] / 100 for i in range(8)]
    sets = config.load(PLAN, hardware, "full").parts()[0].synthetic_acceptance_rates
    assert [list(rates) for rates in sets] == [pytest.approx(strong), pytest.approx(weak)]


def test_every_draft_is_measured_at_each_set_cut_to_k():
    sweep = config.load(PLAN, "cpu", "full").parts()[0]
    arms = [(one.num_speculative_tokens, one.synthetic_acceptance_rates) for one in sweep.speculations()]
    strong, weak = sweep.synthetic_acceptance_rates
    assert arms == [(k, rates[:k]) for k in (1, 3, 5) for rates in (strong, weak)]
    labels = [one.label for one in sweep.speculations()]
    assert labels[:2] == ["EAGLE-3 K=1 at 1.94", "EAGLE-3 K=1 at 1.68"]
    assert len(set(labels)) == len(labels)


def test_a_k_beyond_the_rates_is_refused_with_both():
    with pytest.raises(ConfigError, match="has 8 positions, and K is 9"):
        config.plan_files.load(PLAN, "h100:qwen3-32b-fp8", "full", num_speculative_tokens=[9])
