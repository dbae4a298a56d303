"""The list of hostile cases names tests that there are, each once."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import torture

ROOT = Path(__file__).parents[2]
NAMES = [name for names in torture.known().values() for name in names]


@cache
def functions(path: str) -> set[str]:
    """Names of a file's functions."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def is_a_test(name: str) -> bool:
    path, _, function = name.partition("::")
    found = functions(path)
    return function in found if function else any(each.startswith("test_") for each in found)


def test_each_name_is_a_test():
    assert [name for name in NAMES if not is_a_test(name)] == []


def test_each_is_named_once():
    assert [name for name, times in Counter(NAMES).items() if times > 1] == []
