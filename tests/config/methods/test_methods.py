"""Drafting methods: what each needs is asked for before a server starts, and a new one is one file."""

import pytest
from pydantic import ValidationError

from specbook.bench import provenance
from specbook.config import checkpoint, methods
from specbook.config.methods import Checkpoint, Method, base
from specbook.config.schema import Draft, Speculation, Target
from specbook.engine import preflight
from specbook.errors import ConfigError


@pytest.fixture(autouse=True)
def on_the_hub(monkeypatch):
    """Every model is."""
    monkeypatch.setattr(checkpoint, "check_hub", lambda model, revision: None)


TARGET = Target(name="t", model="org/t", max_model_len=512)
SIZES = {"vocab_size": 4096, "hidden_size": 64}


def speculation(**fields) -> Speculation:
    return Speculation(**{"num_speculative_tokens": 5, **fields})


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"method": "ngram"}, "ngram K=5"),
        ({"method": "suffix"}, "suffix K=5"),
        ({"method": "draft_model", "model": "d"}, "draft model K=5"),
        ({"method": "eagle", "model": "d"}, "EAGLE K=5"),
        ({"method": "eagle3", "model": "d"}, "EAGLE-3 K=5"),
        ({"method": "eagle3", "model": "d", "parallel_drafting": True}, "P-EAGLE K=5"),
    ],
)
def test_labels_are_those_of_the_records(fields, label):
    assert speculation(**fields).label == label


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "eagel3", "model": "d"}, r"no method 'eagel3' \(did you mean 'eagle3'\?\)"),
        ({"method": "eagle3"}, "method 'eagle3' needs `model`"),
        ({"method": "draft_model"}, "method 'draft_model' needs `model`"),
        ({"method": "ngram", "model": "d"}, "method 'ngram': model: Extra inputs are not permitted"),
        ({"method": "ngram", "prompt_lookup_mx": 2}, "did you mean 'prompt_lookup_max'"),
        ({"method": "ngram", "prompt_lookup_min": 0}, "prompt_lookup_min: .* got 0"),
        ({"method": "suffix", "suffix_decoding_min_token_prob": 2}, "less than or equal to 1, got 2"),
        ({"method": "ngram", "parallel_drafting": True}, "'ngram' knows no parallel_drafting = True"),
    ],
)
def test_what_a_method_does_not_know_is_refused(fields, message):
    for made in (lambda: speculation(**fields), lambda: Draft(**fields)):
        with pytest.raises(ValidationError, match=message):
            made()


def test_a_methods_set_keys_reach_the_engine():
    given = speculation(method="suffix", suffix_decoding_max_tree_depth=8)
    want = {"method": "suffix", "num_speculative_tokens": 5, "suffix_decoding_max_tree_depth": 8}
    assert given.engine_config() == want
    assert Speculation.model_validate_json(given.model_dump_json()) == given
    assert given != speculation(method="suffix")


def test_a_missing_package_is_named_before_the_start(monkeypatch):
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"'suffix' needs arctic-inference==0\.1\.1: `pip install"):
        preflight.check(TARGET, speculation(method="suffix"))
    preflight.check(TARGET, speculation(method="ngram"))


def p_eagle(**config) -> None:
    methods.by_name("eagle3", True).check_draft(Checkpoint("t", SIZES), Checkpoint("d", {**SIZES, **config}))


def test_a_head_that_drafts_in_parallel_names_its_mask_token():
    with pytest.raises(ConfigError, match=r"draft d names no mask token \(mask_token_id"):
        p_eagle()
    p_eagle(mask_token_id=0)
    p_eagle(ptd_token_id=7)
    with pytest.raises(ConfigError, match="vocab_size 9"):
        p_eagle(mask_token_id=0, vocab_size=9)


def test_a_head_says_the_targets_size_where_its_own_differs():
    eagle3, target = methods.by_name("eagle3"), Checkpoint("t", SIZES)
    nested = {"transformer_layer_config": {"vocab_size": 4096, "hidden_size": 32}, "target_hidden_size": 64}
    eagle3.check_draft(target, Checkpoint("d", nested))
    with pytest.raises(ConfigError, match="hidden_size 32, target t has 64"):
        eagle3.check_draft(target, Checkpoint("d", nested | {"target_hidden_size": None}))


def told_by(verifier=None, **proposal) -> Checkpoint:
    """A head as speculators writes its configuration."""
    told = {"proposal_methods": [{"proposal_type": "greedy", **proposal}], "verifier": verifier}
    return Checkpoint("d", SIZES | {"mask_token_id": 0, "speculators_config": told})


@pytest.mark.parametrize("parallel", [False, True])
def test_a_head_for_a_target_of_another_class_is_refused(parallel):
    method, target = methods.by_name("eagle3", parallel), Checkpoint("t", SIZES | {"architectures": ["A"]})
    with pytest.raises(
        ConfigError, match="draft d was trained for old, a B, and target t is a A: use a draft"
    ):
        method.check_draft(target, told_by({"name_or_path": "old", "architectures": ["B"]}))
    for silent in (None, "B", {"name_or_path": "old"}, {"name_or_path": "old", "architectures": ["A"]}):
        method.check_draft(target, told_by(silent))


@pytest.mark.parametrize(
    ("head", "depth"),
    [
        (told_by(speculative_tokens=5), 5),
        (told_by(), None),
        (told_by(speculative_tokens="5"), None),
        (Checkpoint("d", SIZES), None),
        (Checkpoint("d", {"speculators_config": [1]}), None),
        (Checkpoint("d", {"speculators_config": {"proposal_methods": 5}}), None),
    ],
)
def test_a_heads_depth_is_read_and_never_assumed(head, depth):
    assert head.trained_depth == depth


@pytest.mark.parametrize(("head", "depth"), [("pocket-dense-eagle3", 5), ("pocket-moe-peagle", 8)])
def test_k_past_a_shipped_heads_training_is_warned_of_first(head, depth):
    def asked(k, **more):
        return speculation(method="eagle3", model=f"models/{head}", num_speculative_tokens=k, **more)

    assert preflight.trained_depth(asked(1)) == depth
    assert provenance.today(TARGET, asked(depth + 1)).draft_trained_depth == depth  # so each record bears it
    assert preflight.past_training(TARGET, asked(depth)) is None
    told = preflight.past_training(TARGET, asked(depth + 1))
    assert told.startswith(f"EAGLE-3 K={depth + 1} for t: models/{head} was trained to draft {depth} tokens")
    assert preflight.past_training(TARGET, asked(9, synthetic_acceptance_rates=[0.5] * 9)) is None


def test_a_hub_heads_depth_is_read_from_the_cache(monkeypatch, tmp_path):
    import huggingface_hub

    head = speculation(method="eagle3", model="org/head")
    kept = tmp_path / "config.json"
    for text, depth in [
        ('{"speculators_config": {"proposal_methods": [{"speculative_tokens": 3}]}}', 3),
        ("{", None),
    ]:
        kept.write_text(text)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: str(kept))
        assert preflight.trained_depth(head) == depth
    monkeypatch.undo()
    for model in (None, "a/b/c"):
        other = head.model_copy(update={"model": model})
        assert preflight.trained_depth(other) is None
    assert preflight.trained_depth(None) is None
    assert preflight.past_training(TARGET, None) is None


def test_a_new_method_is_one_file(monkeypatch, tmp_path):
    (tmp_path / "lookahead.py").write_text(
        "from specbook.config.methods.base import Keys, Method, register\n"
        "class _Keys(Keys):\n"
        "    window: int\n"
        "@register\n"
        "class Lookahead(Method):\n"
        "    name, title, keys = 'lookahead', 'Lookahead', _Keys\n"
    )
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    methods.import_all()
    made = speculation(method="lookahead", window=7)
    assert (made.label, made.engine_config()["window"]) == ("Lookahead K=5", 7)
    with pytest.raises(ValidationError, match="needs `window`"):
        speculation(method="lookahead")
    preflight.check(TARGET, made)


def test_every_method_has_its_file_and_says_what_it_is():
    assert [method.__module__.rsplit(".", 1)[1] for method in methods.known()] == [
        "draft_model", "eagle", "eagle3", "p_eagle", "ngram", "suffix",
    ]  # fmt: skip
    for method in methods.known():
        assert issubclass(method, Method)
        assert method.title
