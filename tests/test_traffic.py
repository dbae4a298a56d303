"""Prompts: clear refusals, one seeded order, and a file that maps back to prompt ids."""

import json

import pytest

from specbook import traffic
from specbook.config import Traffic
from specbook.errors import ConfigError


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"p{i}", "prompt": f"say {i}", "answer": i}) + "\n" for i in range(5))
    )
    return path


def test_all_prompts_are_read_in_file_order(prompts):
    assert [p.id for p in traffic.load_prompts(prompts)] == ["p0", "p1", "p2", "p3", "p4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ('{"id": "a", "prompt": "x"}\n{"id": "b"\n', "line 2:"),
        ('{"id": "a", "prompt": "x"}\n\n{"id": "b"}\n', "line 3: prompt"),
        ('{"id": "a", "prompt": 7}\n', "line 1: prompt"),
        ('{"id": "a", "prompt": "  "}\n', "line 1: the prompt is empty"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}\n', "uses an id twice"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, text, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        traffic.load_prompts(path)


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        traffic.load_prompts(tmp_path / "none.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        traffic.load_prompts(tmp_path / "binary.jsonl")


def test_the_seed_alone_sets_the_order(prompts):
    found = traffic.load_prompts(prompts)
    assert traffic.select(found, 5, 1) == traffic.select(found, 5, 1)
    assert traffic.select(found, 5, 1) != traffic.select(found, 5, 2)
    assert {p.id for p in traffic.select(found, 5, 1)} == {p.id for p in found}


def test_more_requests_than_prompts_start_again_from_the_first(prompts):
    twelve = traffic.select(traffic.load_prompts(prompts), 12, 0)
    assert twelve[5:10] == twelve[:5]
    assert twelve[10:] == twelve[:2]


def test_measured_prompts_do_not_depend_on_the_warm_up(prompts):
    wanted = Traffic(domain="code", prompts=str(prompts))
    few, none = (traffic.measured_and_warmup(wanted, 3, n) for n in (2, 0))
    assert few[0] == none[0]
    assert (len(few[1]), none[1]) == (2, [])


def test_the_bench_file_keeps_order_and_caps_the_output(tmp_path, prompts):
    chosen = traffic.select(traffic.load_prompts(prompts), 3, 0)
    path = traffic.write_bench_file(tmp_path / "new" / "bench.jsonl", chosen, 64)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"prompt": p.prompt, "output_tokens": 64} for p in chosen]
