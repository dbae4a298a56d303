"""Each stage trains what it is called after, and puts it where the card and the plans look for it."""

import pytest

from pocket import catalogue, draft, loop, next_version, outputs, quality, quantize, study, train
from pocket.corpus import DOMAINS, UNSEEN
from pocket.outputs import OutputsRecipe
from pocket.study import BASE
from specbook import config
from specbook.bench import provenance
from specbook.errors import ConfigError


@pytest.fixture
def heads(tmp_path, monkeypatch):
    """Heads are trained in no time; yields the recipe and the folder of each, relative to the project."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models").mkdir(exist_ok=True)
    made = []

    def train_head(folder, data, recipe, scratch, out):
        assert data == "states"
        made.append((recipe, str(out.relative_to(tmp_path))))
        return out

    monkeypatch.setattr(outputs, "target_outputs", lambda target, recipe, out: out / "answers.jsonl")
    monkeypatch.setattr(outputs, "load", lambda answered: [])
    monkeypatch.setattr(outputs, "hidden_states", lambda folder, samples, layers, out, noise: "states")
    monkeypatch.setattr(draft, "train_head", train_head)
    return made


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="device 'gpu0' cannot be used"):
        train._check_device("gpu0")


@pytest.mark.parametrize("kind", ["eagle3", "peagle"])
@pytest.mark.parametrize(("prefix", "target"), [("", "pocket-dense"), ("moe-", "pocket-moe")])
def test_a_head_lies_beside_its_target(heads, prefix, target, kind):
    train.run(prefix + kind, "cpu", lambda line: None)
    assert [(recipe.speculator_type, out) for recipe, out in heads] == [(kind, f"models/{target}-{kind}")]


def test_the_mixture_starts_from_the_dense_weights(tmp_path, monkeypatch):
    dense = tmp_path / "models" / "pocket-dense"
    dense.mkdir(parents=True)
    made = []
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setattr(loop, "train", lambda recipe, out, *rest: made.append((recipe, out)))
    monkeypatch.setattr(quality, "measure", lambda served: served)
    monkeypatch.setattr(quality, "save", lambda served, folder: made.append((served.model, folder)))
    for weights in (b"old", b"new"):
        (dense / "model.safetensors").write_bytes(weights)
        train.run("moe", "cpu", lambda line: None)
    (old, out), measured, (new, _), _ = made
    assert out == tmp_path / "models" / "pocket-moe"
    assert measured == ("models/pocket-moe", out)
    assert old.start == new.start == "models/pocket-dense"
    assert old.start_sha256 != new.start_sha256


def test_the_mixtures_heads_go_on_from_the_dense_ones(heads):
    for kind in ("eagle3", "peagle"):
        train.run(f"moe-{kind}", "cpu", lambda line: None)
    recipes = [recipe for recipe, _ in heads]
    assert [recipe.start for recipe in recipes] == [
        "models/pocket-dense-eagle3",
        "models/pocket-dense-peagle",
    ]
    shared = [{name: getattr(one, name) for name in OutputsRecipe.model_fields} for one in recipes]
    assert shared[0] == shared[1]


def test_a_head_of_the_learning_curve_differs_in_its_prompts(heads, monkeypatch):
    monkeypatch.setattr(train, "_packaged", lambda model, report: None)
    train.run("smollm2-curve", "cpu", lambda line: None)
    train.run("smollm2-eagle3", "cpu", lambda line: None)
    assert [(recipe.num_prompts, out) for recipe, out in heads] == [
        *((n, f"build/smollm2-135m-eagle3-{n}") for n in (32, 64, 128, 256)),
        (1536, "models/smollm2-135m-eagle3"),
    ]
    assert len({recipe.model_copy(update={"num_prompts": 1}) for recipe, _ in heads}) == 1


def test_a_head_of_each_noise_has_its_own_folder(heads):
    train.run("moe-noise", "cpu", lambda line: None)
    assert [(recipe.router_noise, out) for recipe, out in heads] == [
        (strength, f"models/pocket-moe-eagle3-noise-{strength:g}") for strength in (0, 0.25, 0.5, 1, 2, 4)
    ]
    quiet, *noisy = [recipe.model_copy(update={"router_noise": 0.0}) for recipe, _ in heads]
    assert quiet.start == "models/pocket-moe-eagle3"
    assert all(recipe == quiet for recipe in noisy)  # noise is all that sets them apart


def test_trained_heads_are_kept_when_a_stage_goes_on(heads, tmp_path, monkeypatch):
    whole, struck = draft.train_head, []

    def train_head(folder, data, recipe, scratch, out):
        if recipe.router_noise == 1 and not struck:
            struck.append(out)
            raise KeyboardInterrupt
        out.mkdir(exist_ok=True)
        (out / "model.safetensors").write_bytes(out.name.encode())
        return whole(folder, data, recipe, scratch, out)

    monkeypatch.setattr(draft, "train_head", train_head)
    with pytest.raises(KeyboardInterrupt):
        train.run("moe-noise", "cpu", lambda line: None)
    train.run("moe-noise", "cpu", lambda line: None)
    assert [recipe.router_noise for recipe, _ in heads] == [0, 0.25, 0.5, 1, 2, 4]
    (tmp_path / "models/pocket-moe-eagle3-noise-2/model.safetensors").write_bytes(b"another's")
    train.run("moe-noise", "cpu", lambda line: None)
    assert [recipe.router_noise for recipe, _ in heads][6:] == [2]
    start = tmp_path / "models/pocket-moe-eagle3"
    start.mkdir()
    (start / "model.safetensors").write_bytes(b"trained again")
    train.run("moe-noise", "cpu", lambda line: None)
    assert len(heads) == 7 + 6


def test_the_public_models_draft_learns_from_its_answers(heads, monkeypatch):
    made = []
    monkeypatch.setattr(train, "_packaged", lambda model, report: None)
    monkeypatch.setattr(provenance, "model_sha256", lambda model, revision: f"SHA-256 of {model}")
    monkeypatch.setattr(outputs, "endless", lambda answered, seed: answered.name)
    monkeypatch.setattr(loop, "train", lambda *given, samples, **more: made.append((*given[:2], samples)))
    train.run("smollm2-draft", "cpu", lambda line: None)
    ((recipe, out, learnt),) = made
    assert (out.name, learnt) == ("smollm2-135m-draft", "answers.jsonl")
    assert recipe.start_sha256 == f"SHA-256 of {recipe.start}" == f"SHA-256 of {catalogue.SMOLLM2.model}"
    assert (recipe.data_set, recipe.temperature) == ("sharegpt-train", 0.7)


def test_a_studied_head_is_not_among_the_models(heads, monkeypatch):
    monkeypatch.setattr(study, "run", lambda train_one, report: train_one(BASE))
    train.run("study", "cpu", lambda line: None)
    assert heads == [(BASE, "build/train/study")]


def test_all_trains_what_is_served_but_no_study(monkeypatch):
    ran = []
    served = [
        "target",
        "eagle3",
        "peagle",
        "draft",
        "moe",
        "moe_eagle3",
        "moe_peagle",
        "next",
        "next_eagle3",
        "card",
    ]
    for stage in (*served, "study", "next_copy"):
        monkeypatch.setattr(train, f"_{stage}", lambda device, report, stage=stage: ran.append(stage))
    train.run("all", "cpu", lambda line: None)
    assert ran == served


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """Copies are made in no time; yields what was copied, trained and judged, in order."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    dense = tmp_path / "models" / "pocket-dense"
    dense.mkdir(parents=True)
    (dense / "model.safetensors").write_bytes(b"weights")
    made = []

    def copy(source, shipped, out):
        made.append(tuple(str(part.relative_to(tmp_path)) for part in (source, shipped, out)))
        return out

    monkeypatch.setattr(next_version, "copy", copy)
    for name in ("int8", "int4"):
        monkeypatch.setattr(
            quantize, name, lambda source, out, name=name: made.append((name, out.name)) or out
        )
    monkeypatch.setattr(loop, "train", lambda recipe, out, *rest: made.append((recipe, out.name)))
    monkeypatch.setattr(quality, "measure", lambda served, domains: made.append((served.model, domains)))
    monkeypatch.setattr(quality, "save", lambda found, folder: made.append(folder.name))
    return made


COPIED = ("models/pocket-dense", "models/pocket-dense-next", "build/pocket-dense-next")


def test_the_next_version_is_judged_on_old_and_new_traffic(copies):
    train.run("next", "cpu", lambda line: None)
    (recipe, folder), copied, (judged, domains), saved = copies
    assert (folder, copied, saved) == ("pocket-dense-next", COPIED, "pocket-dense-next")
    assert (judged, set(domains)) == ("build/pocket-dense-next", {*DOMAINS, *UNSEEN})
    assert recipe.start == "models/pocket-dense"
    assert recipe.start_sha256
    assert sum(recipe.shares.values()) == pytest.approx(1.0)


def test_the_old_head_is_trained_on_for_the_copy(copies, heads):
    train.run("next-eagle3", "cpu", lambda line: None)
    assert copies == [COPIED]
    ((recipe, out),) = heads
    assert out == "models/pocket-dense-next-eagle3"
    assert recipe.start == "models/pocket-dense-eagle3"
    assert set(recipe.domains) == {*DOMAINS, *UNSEEN}


def test_an_untrained_model_is_named_with_its_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models" / "pocket-dense").mkdir(parents=True)
    asked = [
        "models/pocket-dense",
        "build/pocket-dense-next",
        "models/pocket-dense-next-eagle3",
        "org/hub-id",
    ]
    assert catalogue.untrained(asked) == {
        "build/pocket-dense-next": "models/pocket-dense-next was not trained yet: "
        "`specbook train next` does that",
        "models/pocket-dense-next-eagle3": "models/pocket-dense-next-eagle3 was not trained yet: "
        "`specbook train next-eagle3` does that",
    }
    assert catalogue.untrained(["build/pocket-dense-int8"]) == {}


def test_every_model_of_the_plans_has_a_stage():
    named = {
        model
        for name in config.chapters(["all"], "cpu")
        for model in config.load(name, "cpu", "full").models()
    }
    assert named <= {*catalogue.TRAINED, *catalogue.COPIES, catalogue.SMOLLM2.model}  # which comes by pip
    assert {copy.of for copy in catalogue.COPIES.values()} <= {*catalogue.TRAINED}


def test_only_a_plans_copies_are_made_before_it(copies):
    asked = ["models/pocket-dense", "build/pocket-dense-next", "org/hub-id", "build/pocket-dense-next"]
    assert train.make_copies(asked, lambda line: None) == {}
    assert copies == [COPIED]
    narrow = ["build/pocket-dense-int8", "build/pocket-dense-int4"]
    assert train.make_copies(narrow, lambda line: None) == {}
    assert copies[1:] == [("int8", "pocket-dense-int8"), ("int4", "pocket-dense-int4")]


def test_a_copy_of_what_was_not_trained_yet_is_told_with_its_mend(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    told = train.make_copies(["build/pocket-dense-next"], lambda line: None)
    assert "train the next version first (`specbook train next`)" in told["build/pocket-dense-next"]
