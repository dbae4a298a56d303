import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import islice
from random import Random

import pytest

from pocket.corpus import (
    DOMAINS,
    MIXED,
    UNSEEN,
    held_out,
    json_records,
    mixed,
    prose,
    train_examples,
    write_held_out,
)
from pocket.corpus import code as code_domain
from pocket.corpus import math as math_domain
from pocket.corpus import sql as sql_domain
from pocket.corpus.example import HELD_OUT_ONE_IN, in_held_out_bucket
from pocket.corpus.stdlib import definitions
from specbook import paths
from specbook.analysis import traffic
from specbook.report.figures import style

EVERYTHING = 6_000
NEXT = (*DOMAINS, *UNSEEN)
"""What the target's next version may see."""


@pytest.fixture(scope="module")
def train():
    return {domain: list(train_examples(domain, EVERYTHING, 0, NEXT)) for domain in NEXT}


@pytest.mark.parametrize("domain", NEXT)
def test_same_seed_same_stream_and_another_seed_another(domain):
    first = list(train_examples(domain, 50, 3, NEXT))
    assert first == list(train_examples(domain, 50, 3, NEXT))
    assert first != list(train_examples(domain, 50, 4, NEXT))


OF_A_FEW_FILES = """
from pocket.corpus import *
from pocket.corpus import stdlib
every = stdlib._source_files
stdlib._source_files = lambda root: every(root)[::8]
for d in DOMAINS: print([e.id for e in [*train_examples(d, 20, 0), *held_out(d, 5)]])
"""


def test_stream_does_not_depend_on_the_hash_seed():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", OF_A_FEW_FILES], env={**env, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE, text=True,
        )
        for seed in ("7", "8")
    ]  # fmt: skip
    first, second = (run.communicate()[0] for run in runs)
    assert first == second
    assert len(first.splitlines()) == len(DOMAINS)


@pytest.mark.parametrize("domain", NEXT)
def test_held_out_prompts_are_distinct_and_not_in_training(domain, train):
    tests = held_out(domain)
    prompts = {e.prompt for e in tests}
    assert len(prompts) == len(tests) == 128
    assert prompts.isdisjoint(e.prompt for e in train[domain])


def test_no_held_out_function_body_occurs_in_training(train):
    def body(example):
        tree = ast.parse(example.check["snippet"] + example.answer).body[0]
        has_doc = ast.get_docstring(tree) is not None
        return "\n".join(map(ast.unparse, tree.body[1:] if has_doc else tree.body))

    assert {body(e) for e in held_out("code")}.isdisjoint(map(body, train["code"]))


def test_a_held_out_object_is_in_no_training_text(train):
    names = {e.check["name"] for e in held_out("chat")}
    assert names.isdisjoint(e.check["name"] for e in train["chat"])
    shown = code_domain.functions()
    trained = {
        f.name for f in shown if not code_domain.in_held_out_bucket(f.name, code_domain.HELD_OUT_ONE_IN)
    }
    assert names.isdisjoint(trained)


def test_chat_docstrings_held_out_are_not_in_training(train):
    def docstring(example):
        return example.answer.split(". ", 1)[1]

    assert {docstring(e) for e in held_out("chat")}.isdisjoint(map(docstring, train["chat"]))


def test_every_step_of_math_is_true_and_leads_to_the_answer(train):
    truth = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}
    for example in train["math"][:3000]:
        steps = re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", example.answer)
        for left, sign, right, result in steps:
            assert truth[sign](int(left), int(right)) == int(result) < 100, example.answer
            assert sign != "/" or int(left) % int(right) == 0
        assert int(steps[-1][3]) == example.check["answer"] >= 0


def test_math_and_json_never_run_dry_and_seldom_repeat(train):
    for domain in ("math", "json", "sql"):
        assert len(train[domain]) == EVERYTHING
        assert len({e.prompt for e in train[domain]}) > 0.9 * EVERYTHING


def test_json_sums_are_sums_and_names_stand_in_the_message(train):
    for example in train["json"][:2000]:
        record = example.check["object"]
        assert json.loads(example.answer) == record
        if "items" in record:
            assert all(i["subtotal"] == i["quantity"] * i["price"] for i in record["items"])
            assert record["total"] == sum(i["subtotal"] for i in record["items"]) < 100
            assert all(i["name"] in example.prompt for i in record["items"])
        elif "guests" in record:
            adults, children = record["guests"]["adults"], record["guests"].get("children", 0)
            assert record["guests"]["total"] == adults + children
        else:
            assert record["total"] == sum(record["costs"].values())


def test_json_normalises_what_people_write_in_many_ways(train):
    records = [(e.prompt, e.check["object"]) for e in train["json"][:3000]]
    phones = [(p, c["phone"]) for p, r in records if "phone" in (c := r.get("customer", r))]
    assert all(re.fullmatch(r"555-\d{4}", phone) for _, phone in phones)
    assert 0.1 < sum(phone in prompt for prompt, phone in phones) / len(phones) < 0.5
    dates = [r["date"] for _, r in records if "date" in r]
    assert len(dates) > 100
    assert all(re.fullmatch(r"(0[1-9]|1[0-2])-[012]\d", d) for d in dates)
    assert any("a dozen" in prompt and '"quantity": 12' in json.dumps(r) for prompt, r in records)


@pytest.mark.parametrize("domain", ["math", "json", "sql"])
def test_whole_patterns_are_held_out_not_only_samples(domain):
    makers = {"math": math_domain, "json": json_records, "sql": sql_domain}
    rng = Random(1)
    drawn = [makers[domain]._example(rng) for _ in range(4000)]
    held = {e.id for p, e in drawn if in_held_out_bucket(p, HELD_OUT_ONE_IN)}
    kinds = {p for p, e in drawn if e.id in held}
    assert len(kinds) > 20
    assert kinds.isdisjoint(p for p, e in drawn if e.id not in held)


def test_prose_held_out_occurs_in_no_training_text(train):
    texts = {e.prompt + e.answer for e in train["prose"]} | {e.answer for e in train["chat"]}
    trained = "\n".join(texts)
    assert not [e.id for e in held_out("prose") if e.answer in trained]


def test_prose_is_cut_between_sentences(train):
    for example in train["prose"]:
        assert example.prompt[-1] in ".!?"
        assert example.answer[0].isupper()
        assert example.answer[-1] in ".!?"
        assert len(example.answer) <= prose.MAX_ANSWER_CHARS


def test_code_bodies_do_not_repeat_themselves():
    shown = code_domain.functions()
    assert len(shown) > 2000
    for function in shown:
        shapes = [code_domain._shape(line) for line in function.body]
        assert max(map(shapes.count, shapes)) <= 2


def test_definitions_are_unique_and_hold_no_tests():
    names = [d.name for d in definitions()]
    assert len(names) == len(set(names))
    assert not any(part in ("test", "tests") for d in definitions() for part in d.module.split("."))


def test_unknown_domain_and_too_many_held_out_are_refused():
    with pytest.raises(ValueError, match="poetry"):
        next(train_examples("poetry", 1, seed=0))
    with pytest.raises(ValueError, match="fewer"):
        held_out("code", n=10**6)


def test_write_held_out_round_trips(tmp_path):
    paths = write_held_out(tmp_path / "new")
    assert [p.stem for p in paths] == [*NEXT, MIXED]
    for domain, path in zip(NEXT, paths, strict=False):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [r["id"] for r in rows] == [e.id for e in islice(held_out(domain), 128)]


def test_a_whole_held_out_domain_is_the_next_versions():
    with pytest.raises(ValueError, match="'sql' is held out of training: only the target's next version"):
        train_examples("sql", 1, seed=0)
    assert next(train_examples("sql", 1, 0, NEXT)).domain == "sql"


def test_queries_run_and_name_only_what_the_table_has(train):
    for example in train["sql"][:500]:
        head, _, _ = example.prompt.partition("\n")
        table, _, columns = head.removeprefix("Table ").partition(": ")
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE {table} ({columns})")
            database.execute(example.answer)


def test_the_mixed_file_has_each_trained_prompt_once():
    found = mixed()
    assert [e.domain for e in found[: 2 * len(DOMAINS)]] == [*DOMAINS, *DOMAINS]
    assert sorted(e.id for e in found) == sorted(e.id for domain in DOMAINS for e in held_out(domain))
    assert len({e.id for e in found}) == len(found)


def test_what_ships_is_what_the_corpus_gives():
    """Of templates: the others follow the CPython that wrote them."""
    folder = paths.models_dir() / "heldout"
    for domain in ("math", "json", "sql"):
        shipped = (folder / f"{domain}.jsonl").read_text(encoding="utf-8")
        assert shipped == "".join(f"{e.to_json()}\n" for e in held_out(domain))
    own = [set((folder / f"{d}.jsonl").read_text(encoding="utf-8").splitlines()) for d in DOMAINS]
    together = (folder / f"{MIXED}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(together) == len(set(together)) == sum(map(len, own))
    assert [line in own[i % len(DOMAINS)] for i, line in enumerate(together)] == [True] * len(together)


def test_the_books_words_for_the_domains_are_the_corpuss():
    assert set(traffic.TRAINED) == set(DOMAINS)
    assert ((traffic.UNSEEN,), traffic.MIXED) == (UNSEEN, MIXED)
    assert set(style.DOMAINS) == {*NEXT, MIXED}
