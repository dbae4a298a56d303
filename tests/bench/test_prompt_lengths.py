"""Prompts that cannot fit are counted before a server starts, by the target's own tokenizer."""

import json

import pytest

from specbook.bench import plan_notes
from specbook.config.plan import Plan
from specbook.errors import ConfigError


@pytest.fixture
def plan(tmp_path):
    """Of a target whose tokens are words, with room for eight, and of these prompts."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))

    def of(*prompts, **more):
        rows = ({"id": f"p{number}", "prompt": text} for number, text in enumerate(prompts))
        (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Plan(
            chapter="x", hardware="cpu", group="quick", baselines=("eager",), restarts=1, domains=("mine",),
            target={"name": "t", "model": str(tmp_path), "max_model_len": 16}, max_tokens=8,
            prompts=str(tmp_path / "mine.jsonl"), concurrency=(1,), num_requests={1: 1}, **more,
        )  # fmt: skip

    return of


def test_prompts_that_leave_no_room_are_counted_with_the_first(plan):
    said = plan_notes.too_long(plan("short", "long " * 9, "longer " * 30))
    assert said.startswith("2 of 3 prompts of ")
    assert "have more than 8 tokens" in said
    assert "(first: 'p1', 9 tokens): raise target.max_model_len" in said


def test_prompts_of_many_characters_and_few_tokens_fit(plan):
    assert plan_notes.too_long(plan("x" * 400, "eight " * 8)) is None


def test_without_a_tokenizer_nothing_is_said(plan, tmp_path):
    wanted = plan("long " * 9)
    (tmp_path / "tokenizer.json").unlink()
    assert plan_notes.too_long(wanted) is None


def test_a_tokenizer_that_is_none_is_refused(plan, tmp_path):
    wanted = plan("long " * 9)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json cannot be used"):
        plan_notes.too_long(wanted)
