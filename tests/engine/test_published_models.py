"""Model folders as they are published: accepted, or refused in one line before a server starts."""

import json
import pickle
import re
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from specbook.bench import provenance
from specbook.config.schema import Speculation, Target
from specbook.engine import preflight
from specbook.errors import ConfigError

SIZES = {"vocab_size": 16, "hidden_size": 8}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture
def folder(tmp_path):
    """A model with weights, and these files; text as it is, anything else as JSON."""

    def write(name="m", config=SIZES, weights=True, **files):
        made = tmp_path / name
        made.mkdir()
        for file, body in {"config.json": config, **files}.items():
            (made / file).write_text(body if isinstance(body, str) else json.dumps(body))
        if weights:
            save_file({"w": np.zeros(4, "float32")}, made / "model.safetensors")
        return made

    return write


def served(folder, **more) -> Target:
    return Target(name="t", model=str(folder), max_model_len=64, **more)


# chat templates


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer.json": {}, "chat_template.jinja": TEMPLATE},
        {"tokenizer_config.json": {"chat_template": TEMPLATE}},
        {"tokenizer_config.json": {"chat_template": [{"name": "default", "template": TEMPLATE}]}},
        {"tokenizer_config.json": {"chat_template": {"default": TEMPLATE, "tool_use": TEMPLATE}}},
        {"tokenizer_config.json": {}, "chat_template.json": {"chat_template": TEMPLATE}},
        {"tekken.json": {}},
    ],
)
def test_a_template_is_found_where_it_stands(folder, files):
    preflight.check(served(folder(**files)), None)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"tokenizer.json": {}}, "its tokenizer has no chat template"),
        ({"tokenizer_config.json": {"model_max_length": 64}}, "its tokenizer has no chat template"),
        ({"tokenizer_config.json": {"chat_template": None}}, "its tokenizer has no chat template"),
        ({"tokenizer_config.json": {"chat_template": [{"name": "rag"}]}}, "none of .* is called `default`"),
        ({"tokenizer_config.json": {"chat_template": {"rag": TEMPLATE}}}, "none of .* is called `default`"),
    ],
)
def test_a_model_without_a_template_is_refused_with_the_mend(folder, files, why):
    made = folder(**files)
    with pytest.raises(
        ConfigError, match=rf"{why}, so every .*\(Bad Request\): put .* m/chat_template\.jinja"
    ):
        preflight.check(served(made), None)
    preflight.check(served(made, extra_args=("--chat-template", "x.jinja")), None)
    preflight.check(served(made, extra_args=("--chat-template=x.jinja",)), None)


# weights


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))


def test_older_weights_are_accepted_whole_or_in_shards(folder):
    made = folder(weights=False)
    archive(made / "pytorch_model.bin")
    (made / "training_args.bin").write_bytes(b"")
    preflight.check(served(made), None)
    digest = provenance.model_sha256(str(made), None)
    assert not digest.startswith("shape:")
    archive(made / "pytorch_model-2.bin")
    assert provenance.model_sha256(str(made), None) != digest
    (made / "pytorch_model.bin.index.json").write_text('{"weight_map": {"w": "pytorch_model-3.bin"}}')
    with pytest.raises(ConfigError, match=r"lacks pytorch_model-3\.bin"):
        preflight.check(served(made), None)


def test_weights_from_before_archives_are_accepted(folder):
    made = folder(weights=False)
    (made / "pytorch_model.bin").write_bytes(pickle.dumps(1, protocol=2))
    preflight.check(served(made), None)


def test_half_of_an_older_file_is_named(folder):
    made = folder(weights=False)
    archive(made / "pytorch_model.bin")
    whole = (made / "pytorch_model.bin").read_bytes()
    (made / "pytorch_model.bin").write_bytes(whole[:-30])
    with pytest.raises(ConfigError, match=r"pytorch_model\.bin is half-written or no PyTorch file"):
        preflight.check(served(made), None)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_pointer_of_git_lfs_is_not_taken_for_weights(folder, name):
    made = folder(weights=False)
    (made / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(ConfigError, match=rf"{name} is a pointer of Git LFS, .*run `git lfs pull`"):
        preflight.check(served(made), None)


# configurations


def test_a_nested_configuration_is_the_language_models(folder):
    target = folder("t", {"text_config": {"vocab_size": 16, "hidden_size": 8}, "hidden_size": None})
    small = folder("d", {"vocab_size": 99})
    draft = Speculation(method="draft_model", model=str(small), num_speculative_tokens=2)
    with pytest.raises(ConfigError, match="vocab_size 99, target t has 16"):
        preflight.check(served(target), draft)


def test_nested_experts_are_counted(folder):
    made = folder(config={"text_config": {"num_experts": 2, "num_experts_per_tok": 3}})
    with pytest.raises(ConfigError, match="num_experts_per_tok 3 exceeds num_experts 2"):
        preflight.check(served(made), None)


# sampling


@pytest.mark.parametrize(
    ("asked", "temperature", "want"),
    [
        (
            {"do_sample": True, "temperature": 0.6, "top_p": 0.9},
            0.0,
            "temperature 0.6, top_p 0.9; .*: greedy",
        ),
        ({"repetition_penalty": 1.1}, 0.0, "asks for repetition_penalty 1.1; "),
        ({"temperature": 0.6, "top_k": 20}, 0.7, "asks for temperature 0.6, top_k 20; .*: temperature 0.7"),
        ({"temperature": 0.6}, 0.6, None),
        ({"do_sample": False, "temperature": 0.6}, 0.0, None),
        ({"temperature": 1.0, "top_p": 1.0, "eos_token_id": [1, 2]}, 0.0, None),
        ({"eos_token_id": 2}, 0.0, None),
    ],
)
def test_sampling_that_the_plan_overrides_is_said(folder, asked, temperature, want):
    target = served(folder(**{"generation_config.json": asked}))
    said = preflight.overridden_sampling(target, temperature)
    assert (said is None) == (want is None)
    assert re.search(want or "", said or ""), said
