"""Public data sets as they are published: small files of the same form, and what pins the real ones."""

import gzip
import hashlib
import shutil
from pathlib import Path

import httpx
import pytest

from specbook import paths
from specbook.config import datasets, plan_overrides, prompt_files
from specbook.errors import ConfigError

DATA = Path(__file__).parents[1] / "data" / "prompts"


def loaded(path: Path) -> list[tuple[str | None, str]]:
    return [(prompt.domain, prompt.prompt) for prompt in prompt_files.load(path)]


def test_sharegpt_asks_the_first_turn_of_each_conversation():
    assert loaded(DATA / "sharegpt.json") == [(None, "Name a river."), (None, "Name a lake.")]


def test_mt_bench_is_asked_its_first_turns_by_category():
    want = [("writing", "Write two lines on rain."), ("math", "What is 7 times 8?")]
    assert loaded(DATA / "mt-bench.jsonl") == want
    assert [prompt.id for prompt in prompt_files.load(DATA / "mt-bench.jsonl")] == ["901", "902"]


def test_gsm8k_is_asked_its_questions_and_named_after_its_file():
    assert next(said for _, said in loaded(DATA / "gsm8k.jsonl")).startswith("Tom has 3 pears")
    assert prompt_files.domains(DATA / "gsm8k.jsonl") == ("gsm8k",)


def test_humaneval_is_compressed_and_asked_its_prompt(tmp_path):
    packed = tmp_path / "humaneval.jsonl.gz"
    packed.write_bytes(gzip.compress((DATA / "humaneval.jsonl").read_bytes()))
    assert loaded(packed) == [(None, 'def one() -> int:\n    """One."""\n')]
    assert prompt_files.load(packed)[0].id == "HumanEval/900"
    assert prompt_files.domains(packed) == ("humaneval",)


def test_speed_bench_is_read_with_messages_and_without():
    assert loaded(DATA / "speed-bench.jsonl") == [
        ("coding", "Reverse a list in Python."), ("rag", "Sum this text up."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "[1, 2", "a.json is not JSON"),
        ("a.json", "[7]", "a.json, element 1: the line"),
        ("a.json", "[]", "is empty"),
        ("a.json", '[{"conversations": []}]', "is empty"),
        ("a.jsonl", '{"question": 3, "answer": "x"}', "line 1: prompt: .*got 3"),
        ("a.jsonl", '{"turns": [], "category": "x"}', "prompt and messages are both missing"),
        ("a.jsonl.gz", "not gzip", "cannot be read"),
    ],
)
def test_a_file_of_no_known_form_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        prompt_files.load(tmp_path / name)


# the real ones


def test_each_data_set_says_its_licence_source_and_what_pins_it():
    found = datasets.known()
    assert set(found) == {
        "bfcl", "gsm-symbolic", "gsm8k", "humaneval", "mt-bench", "mt-bench-second", "sharegpt",
        "sharegpt-train", "speed-bench",
    }  # fmt: skip
    for one in found.values():
        assert (one.pip is one.url is None) == (one.sha256 is None) == (one.made_by is not None)
        assert (one.url is None) == (one.revision is None)
        assert one.url is None or one.revision in one.url


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A data set that lies where a download would put it."""
    for name in ("params", "models/heldout"):
        shutil.copytree(paths.root() / name, tmp_path / name)
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "build/datasets").mkdir(parents=True)
    where = tmp_path / "build/datasets/gsm8k.jsonl"
    shutil.copy(DATA / "gsm8k.jsonl", where)
    return where


def pin(where: Path, sha256: str) -> None:
    listed = paths.params_dir() / "datasets.yaml"
    listed.write_text(listed.read_text().replace(datasets.known()["gsm8k"].sha256, sha256))


def test_a_file_with_another_digest_is_refused(cached):
    with pytest.raises(ConfigError, match=r"is not GSM8K, test at its pinned revision: .*remove it"):
        plan_overrides.file("gsm8k")


@pytest.mark.usefixtures("cached")
def test_a_misspelt_name_is_told_the_near_one():
    with pytest.raises(ConfigError, match=r"no data set of that name \(did you mean 'gsm8k'\?\)"):
        plan_overrides.file("gsm8")


def test_a_file_with_the_digest_is_used_by_its_name(cached):
    pin(cached, hashlib.sha256(cached.read_bytes()).hexdigest())
    assert plan_overrides.file("gsm8k") == "build/datasets/gsm8k.jsonl"


def answering(body: bytes, monkeypatch):
    transport = httpx.MockTransport(lambda _: httpx.Response(200 if body else 404, content=body))
    monkeypatch.setattr(
        httpx, "stream", lambda *a, timeout, **k: httpx.Client(transport=transport).stream(*a, **k)
    )


def test_it_is_fetched_once_and_checked_before_it_is_kept(cached, monkeypatch):
    body = cached.read_bytes()
    cached.unlink()
    answering(body, monkeypatch)
    with pytest.raises(ConfigError, match="is not GSM8K"):
        datasets.path("gsm8k")
    assert list(cached.parent.iterdir()) == []
    pin(cached, hashlib.sha256(body).hexdigest())
    assert datasets.path("gsm8k").read_bytes() == body
    answering(b"", monkeypatch)
    assert datasets.path("gsm8k").read_bytes() == body


def test_without_the_network_it_says_what_to_put_where(cached, monkeypatch):
    cached.unlink()
    answering(b"", monkeypatch)
    with pytest.raises(ConfigError, match=r"cannot be fetched .*404.* download https://.* to .*gsm8k\.jsonl"):
        datasets.path("gsm8k")
    with pytest.raises(ConfigError, match=r"SPEED-Bench, .* make it .*put it at .*speed-bench\.jsonl"):
        datasets.path("speed-bench")
