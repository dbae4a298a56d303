"""Your own target, drafts and prompts: short forms are written out, and what cannot be is told at once."""

import json

import pytest
import yaml

from specbook import config, paths
from specbook.config import checkpoint, plan_overrides
from specbook.errors import ConfigError

TARGET = {"name": "t", "model": "org/t", "max_model_len": 512, "dtype": "float32", "quantization": "fp8"}
GROUP = {
    "target": TARGET, "baselines": ["eager"], "drafts": [{"method": "eagle3", "model": "models/head"}],
    "num_speculative_tokens": [5], "domains": ["json"], "concurrency": [1, 4], "num_requests": {1: 4, 4: 8},
    "max_tokens": 64, "restarts": 1,
}  # fmt: skip
EAGLE3, P_EAGLE = {"architectures": ["LlamaForCausalLMEagle3"]}, {"ptd_token_id": 7}
MODELS = {
    "model": {},
    "head": EAGLE3,
    "parallel": EAGLE3 | P_EAGLE,
    "small": {"architectures": ["Qwen3ForCausalLM"]},
    "odd": {"architectures": ["X"]},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one chapter, and a working directory beside it with a model and its drafts."""
    top, work = tmp_path / "project", tmp_path / "work"
    for folder, settings in MODELS.items():
        (work / folder).mkdir(parents=True)
        (work / folder / "config.json").write_text(json.dumps(settings))
    (top / "params/cpu").mkdir(parents=True)
    (top / "models/heldout").mkdir(parents=True)
    (top / "models/heldout/json.jsonl").touch()
    (top / "params/cpu/02_x.yaml").write_text(yaml.safe_dump({"quick": GROUP, "full": GROUP}))
    lines = [{"prompt": f"say {i}", "domain": "ab"[i % 2]} for i in range(8)]
    (work / "mine.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.setenv("SPECBOOK_ROOT", str(top))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.chdir(work)
    return work


def load(**given):
    return config.load("02_x", "cpu", "quick", **given)


def test_another_targets_folder_keeps_the_serving_sizes(project):
    found = load(target="model", drafts="head").target
    assert (found.name, found.model) == ("model", str(project / "model"))
    assert (found.dtype, found.max_model_len, found.quantization) == ("float32", 512, None)


def test_some_of_a_targets_keys_may_be_given(project):
    assert load(target={"max_model_len": 256}).target.model_dump() == load().target.model_dump() | {
        "max_model_len": 256
    }
    found = load(target={"model": "org/other", "dtype": "auto", "name": "mine"}, drafts="ngram").target
    assert (found.name, found.model, found.dtype, found.max_model_len) == ("mine", "org/other", "auto", 512)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("ngram", {"method": "ngram"}),
        ("head", {"method": "eagle3", "model": "head"}),
        ("parallel", {"method": "eagle3", "model": "parallel", "parallel_drafting": True}),
        ("small", {"method": "draft_model", "model": "small"}),
        ("eagle3:org/head", {"method": "eagle3", "model": "org/head"}),
        ("draft_model:odd", {"method": "draft_model", "model": "odd"}),
    ],
)
def test_a_drafts_method_is_named_or_read_from_its_config(project, given, want):
    if (project / want.get("model", "?")).is_dir():
        want = want | {"model": str(project / want["model"])}
    assert plan_overrides.draft(given) == want


def test_a_draft_on_the_hub_is_asked_for_its_config(project, monkeypatch):
    monkeypatch.setattr(checkpoint, "from_hub", lambda model: project / "parallel/config.json")
    assert plan_overrides.draft("org/head") == {
        "method": "eagle3",
        "model": "org/head",
        "parallel_drafting": True,
    }


def test_own_prompts_are_the_traffic_and_are_digested(project):
    found = load(prompts="mine.jsonl")
    assert found.domains == ("a", "b")
    assert {p.traffic.prompts for p in found.points()} == {str(project / "mine.jsonl")}
    assert not {p.key for p in found.points()} & {p.key for p in load().points()}
    assert load(prompts="mine.jsonl", domains=["b"]).domains == ("b",)


def test_a_plan_may_use_some_domains_of_its_file(project):
    body = {"quick": GROUP | {"prompts": "mine.jsonl", "domains": ["a"]}}
    found = config.build("02_x", body, hardware="cpu", group="quick", overrides={})
    assert found.domains == ("a",)
    body["quick"].pop("domains")
    found = config.build("02_x", body, hardware="cpu", group="quick", overrides={})
    assert found.domains == ("a", "b")


def test_project_and_home_are_left_out_of_names(project, monkeypatch):
    (paths.root() / "mine.jsonl").write_text('{"prompt": "x"}\n')
    assert paths.located("mine.jsonl") == "mine.jsonl"  # the project's goes first
    assert paths.located(str(paths.root() / "mine.jsonl")) == "mine.jsonl"
    monkeypatch.setenv("HOME", str(project))
    assert paths.located("./head") == "~/head"
    assert paths.at("~/head") == project / "head"
    assert paths.located("nothing") is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"target": "model"},
            r"its draft models/head was trained for org/t: give a draft .*`ngram` needs no",
        ),
        ({"target": "./modle", "drafts": "ngram"}, r"target './modle': no such folder, and no hub id"),
        ({"target": 7, "drafts": "ngram"}, "target: "),
        ({"target": {"model": 7}, "drafts": "ngram"}, "target 7: give a folder or a hub id"),
        ({"drafts": "ngrm"}, r"no draft 'ngrm' \(did you mean 'ngram'\?\): give a folder"),
        ({"drafts": "eagle3"}, "method 'eagle3' needs `model`"),
        ({"drafts": "odd"}, r"its architecture X fits no method here \(.*\): name it, METHOD:.*odd"),
        ({"drafts": "./none"}, "draft './none': no such folder"),
        ({"prompts": "none.jsonl"}, r"prompts 'none.jsonl': no such file, and no data set .*\. A line is"),
        ({"prompts": "head"}, "prompts 'head': no such file"),
        ({"prompts": 3}, "prompts 3: give the path of a JSONL file"),
        ({"prompts": "mine.jsonl", "domains": ["c"]}, r"has no domain 'c' \(known: a, b\)"),
        (
            {"domains": ["prose"]},
            r"no prompts of domain 'prose' yet: \./models/heldout/prose\.jsonl is not there",
        ),
        ({"domains": ["jsno"]}, r"no domain 'jsno' \(did you mean 'json'\?\)\. To ask prompts of your own"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_starts(project, given, message):
    with pytest.raises(ConfigError, match=message):
        load(**given)


def test_a_batch_never_holds_a_prompt_twice(project):
    (project / "few.jsonl").write_text('{"prompt": "x"}\n' * 9 + '{"prompt": "y"}\n')
    with pytest.raises(
        ConfigError, match="has 2 distinct prompts of 'few', and a batch of 4 would hold some"
    ):
        load(prompts="few.jsonl")
    assert load(prompts="few.jsonl", concurrency=[1]).domains == ("few",)


def test_a_draft_without_a_config_is_named(project):
    (project / "head/config.json").unlink()
    with pytest.raises(ConfigError, match=r"draft .*head: .*config.json cannot be read"):
        plan_overrides.draft("head")
    (project / "head/config.json").write_text("[]")
    with pytest.raises(ConfigError, match="holds list, want a mapping"):
        plan_overrides.draft("head")


def test_a_notebook_takes_the_same_words(project):
    given = {"hardware": "cpu", "group": "quick", "source": "records", "target": "model", "drafts": ["ngram"]}
    found = config.from_notebook("02_x", given | {"prompts": "mine.jsonl"})
    assert found == load(target="model", drafts=["ngram"], prompts="mine.jsonl")


def test_settings_are_yaml_and_a_dotted_key_is_one_of_a_mapping():
    texts = ["target.dtype=auto", "target.max_model_len=64", "baselines=[eager]", "prompts=a=b", "seed=null"]
    target = {"dtype": "auto", "max_model_len": 64}
    assert plan_overrides.settings(texts) == {
        "target": target,
        "baselines": ["eager"],
        "prompts": "a=b",
        "seed": None,
    }


def test_short_forms_precede_settings_that_add_sizes():
    texts = ["target.max_model_len=64", "restarts=2", "prompts=theirs.jsonl"]
    assert plan_overrides.given("mine", ["ngram"], "own.jsonl", texts) == {
        "target": {"model": "mine", "max_model_len": 64}, "restarts": 2, "drafts": ["ngram"],
        "prompts": "own.jsonl",
    }  # fmt: skip
    assert plan_overrides.given("mine", [], None, ["target=theirs"]) == {"target": "mine"}
    assert plan_overrides.given(None, [], None, []) == {}


@pytest.mark.parametrize("text", ["restarts", "group=full", "domains=[json"])
def test_a_setting_that_is_none_is_named(text):
    with pytest.raises(ConfigError, match=f"--set {text.partition('[')[0]}"):
        plan_overrides.settings([text])


def test_a_number_of_base_60_is_no_mapping():
    assert yaml.safe_load("{32:8}") == {1928: None}
    with pytest.raises(ConfigError, match=r"num_requests=\{32:8\}: put a blank after the colon"):
        plan_overrides.settings(["num_requests={32:8}"])
    assert plan_overrides.settings(["a={32: 8}", "b=x1:2"]) == {"a": {32: 8}, "b": "x1:2"}
