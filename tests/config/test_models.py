"""Model files: each value has a source, revisions are commits, and what is not pinned is listed here."""

import pytest
import yaml

from specbook import config
from specbook.config import machines, models, prices
from specbook.errors import ConfigError

UNPINNED = {
    "amazon/Qwen3-Coder-30B-A3B-Instruct-P-EAGLE",
    "amazon/gpt-oss-120b-p-eagle",
    "nvidia/gpt-oss-120b-Eagle3-v3",
}
"""Hub ids whose commit no source that was read names: set `revision` before you quote a number."""


def checkpoints():
    """Hub id and revision of every weight and head that a hub has."""
    for name in models.names():
        model = models.load(name)
        yield from ((one.model, one.revision) for one in model.weights.values() if one.pip is None)
        yield from ((head.draft.model, head.draft.revision) for head in model.heads.values())


def test_what_is_not_pinned_is_listed():
    assert {hub_id for hub_id, revision in checkpoints() if revision is None} == UNPINNED


def test_a_hub_id_stands_once():
    ids = [hub_id for hub_id, _ in checkpoints()]
    assert len(set(ids)) == len(ids)
    assert all(hub_id.count("/") == 1 for hub_id in ids)


@pytest.mark.parametrize("name", models.names())
def test_hosts_of_a_model_have_a_price_and_its_heads_draft(name):
    model = models.load(name)
    assert all(prices.api(host).verified for host in model.apis)
    for head in model.heads.values():
        assert head.draft.model
        assert model.head_of(head.draft.model) == head
    assert {models.by_hub_id(weights.model) for weights in model.weights.values()} == {
        (name, form) for form in model.weights
    }


def test_four_models_are_served_in_their_profiles_formats():
    served = {one.name for folder in config.hardwares() for one in machines.read(folder).serves}
    assert served >= {
        "llama-3.3-70b-fp8", "llama-3.3-70b-bf16", "qwen3-32b-fp8", "qwen3-coder-30b-a3b-fp8",
        "qwen3-coder-30b-a3b-bf16", "gpt-oss-120b-mxfp4",
    }  # fmt: skip


def test_a_hardware_serves_its_first_or_its_named_model():
    first, chosen = (
        config.load("02_eagle3", "h200", "full"),
        config.load("02_eagle3", "h200:llama-3.3-70b-bf16", "full"),
    )
    assert (first.target.name, first.hardware) == ("qwen3-32b-fp8", "h200")
    assert (chosen.target.name, chosen.target.tensor_parallel_size) == ("llama-3.3-70b-bf16", 2)
    assert (chosen.target.dtype, first.target.dtype) == ("bfloat16", "auto")
    head = models.load("llama-3.3-70b").heads["eagle3"].draft
    assert [(draft.model, draft.revision) for draft in chosen.drafts] == [(head.model, head.revision)]
    assert chosen.num_speculative_tokens == first.num_speculative_tokens


def test_a_model_on_several_devices_is_paid_for_on_all_of_them():
    one, two = (
        config.load("08_cost", f"h100:{name}", "full") for name in ("qwen3-32b-fp8", "llama-3.3-70b-fp8")
    )
    assert (one.devices, two.devices) == (1, 2)
    assert two.hourly() == 2 * one.hourly()
    half = config.load("08_cost", "trn2:qwen3-32b-bf16", "full")
    assert (half.devices, half.hourly()) == (8, prices.machine("trn2.48xlarge capacity block").usd_per_hour)
    assert "Together Llama-3.3-70B" in two.apis


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ("h200:llama-3.3-70b-fp", r"params/h200/machine.yaml serves no 'llama-3.3-70b-fp' .did you mean"),
        ("h200:", "serves no ''"),
        ("h201:qwen3-32b-fp8", r"no hardware profile 'h201' .did you mean 'h200'"),
        ("cpu:qwen3-32b-fp8", r"params/cpu/machine.yaml serves no 'qwen3-32b-fp8' .known: none"),
        ("models", "no hardware profile 'models'"),
        ("shared", "no hardware profile 'shared'"),
    ],
)
def test_what_no_machine_serves_is_refused(hardware, message):
    with pytest.raises(ConfigError, match=message):
        config.load("02_eagle3", hardware, "full")


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A project with one machine that serves one model; writes further files."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))

    def write(path, body):
        file = tmp_path / "params" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(body))

    model = {"title": "T", "config_source": "x", "weights": {"fp8": {"model": "o/t", "source": "x"}}}
    write("models/t/model.yaml", model)
    write("gpu/machine.yaml", {"kind": "cuda", "serves": [{"model": "t", "weights": "fp8"}]})
    sweep = {
        "baselines": ["compiled"], "domains": ["json"], "concurrency": [1], "num_requests": {1: 4},
        "max_tokens": 64, "restarts": 1, "drafts": ["eagle3"], "num_speculative_tokens": [1],
    }  # fmt: skip
    write("shared/02_x.yaml", {"group": "full", "source": "records", "full": sweep})
    prompts = tmp_path / "models" / "heldout" / "json.jsonl"
    prompts.parent.mkdir(parents=True)
    prompts.write_text('{"id": "a", "prompt": "hello"}\n')
    return write


def test_a_head_that_the_model_lacks_is_named(params):
    with pytest.raises(
        ConfigError, match=r"models/t/model.yaml names no head 'eagle3'.*leave the chapter out"
    ):
        config.load("02_x", "gpu", "full")


@pytest.mark.parametrize(
    ("model", "parallel"),
    [("qwen3-coder-30b-a3b-fp8", [True, False, False]), ("qwen3-32b-fp8", [False, False])],
)
def test_an_optional_head_is_left_out_where_there_is_none(model, parallel):
    drafts = config.load("03_p_eagle", f"h200:{model}", "full").drafts
    assert [draft.parallel_drafting for draft in drafts] == parallel


def test_weights_that_the_model_lacks_are_named(params):
    params("gpu/machine.yaml", {"serves": [{"model": "t", "weights": "fp4"}]})
    with pytest.raises(ConfigError, match=r"model 't' has no weights 'fp4' .did you mean 'fp8'"):
        config.load("02_x", "gpu", "full")


def test_a_model_that_is_nowhere_is_named(params):
    params("gpu/machine.yaml", {"serves": [{"model": "tt", "weights": "fp8"}]})
    with pytest.raises(ConfigError, match=r"no model 'tt' in params/models/ .did you mean 't'"):
        config.load("02_x", "gpu", "full")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": "main"}, "weights.fp8.revision: .*'main'"),
        ({"source": ""}, "weights.fp8.source"),
        ({"modle": "x"}, "did you mean 'model'"),
    ],
)
def test_a_wrong_model_file_is_named(params, change, message):
    weights = {"fp8": {"model": "o/t", "source": "x"} | change}
    params("models/t/model.yaml", {"title": "T", "config_source": "x", "weights": weights})
    with pytest.raises(ConfigError, match=message):
        models.load("t")


def test_a_machines_own_chapter_precedes_the_shared_one(params):
    own = config.read_file(config.file("02_x", "gpu"))["full"] | {"drafts": [{"method": "ngram"}]}
    params("gpu/02_x.yaml", {"hardware": "gpu", "group": "full", "source": "records", "full": own})
    assert config.load("02_x", "gpu", "full").drafts[0].method == "ngram"
    assert config.chapters(["all"], "gpu") == ["02_x"]
