"""What is checked in: nothing of one machine, no private registry, bearable weights, documented code."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tools import ROOT, git

LIB = ROOT / "lib" / "specbook"
MACHINE = re.compile(r"(?<![\w.~/<}-])/(?:work|root|home|tmp)/[\w.]")
INDEX = re.compile(
    r"(?:--?(?:extra-)?index-url|--trusted-host|--find-links|-i|index-url\s*=|registry\s*=)[\s=]+\S*?//([\w.-]+)"
)
ALLOWED_INDEXES = {"download.pytorch.org"}
MAX_WEIGHTS_BYTES = 200_000_000
THIS = Path(__file__).relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Every tracked or still unadded text file; what git ignores is not shipped."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    found = {}
    for name in sorted(set(filter(None, names)) - {THIS}):
        data = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b"\0"
        if b"\0" not in data[:8000]:
            found[name] = data.decode(errors="replace")
    return found


def lines_with(pattern: re.Pattern, texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_path_of_one_machine(texts):
    assert lines_with(MACHINE, texts) == []


@pytest.mark.parametrize("text", ["/work/main/x", '"/home/me/a"', "=/tmp/w", "see /root/.cache", "(/tmp/x)"])
def test_such_a_path_would_be_found(text):
    assert MACHINE.search(text)


@pytest.mark.parametrize(
    "text", ["https://a.org/home/x", "./work/x", "framework/x", "~/tmp/x", "$HOME/tmp/x"]
)
def test_other_paths_are_left_alone(text):
    assert not MACHINE.search(text)


def test_no_package_index_but_pytorchs_own(texts):
    hosts = {(name, host) for name, text in texts.items() for host in INDEX.findall(text)}
    assert {(name, host) for name, host in hosts if host not in ALLOWED_INDEXES} == set()


def test_no_credentials_in_an_address(texts):
    assert lines_with(re.compile(r"https?://[^\s/@\"'<>]+:[^\s/@\"'<>]+@"), texts) == []


def test_the_weights_of_all_commits_together_stay_small():
    objects = git("rev-list", "--all", "--objects", "--", "models").splitlines()
    names = "\n".join(line.split()[0] for line in objects)
    sizes = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objecttype) %(objectsize)"],
        cwd=ROOT, input=names, capture_output=True, text=True, timeout=120, check=True,
    ).stdout.splitlines()  # fmt: skip
    committed = sum(int(line.split()[1]) for line in sizes if line.startswith("blob "))
    assert committed < MAX_WEIGHTS_BYTES


def undocumented(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [] if ast.get_docstring(tree) else [f"{path.name}: the module"]
    scopes = [
        tree,
        *(node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")),
    ]
    for scope in scopes:
        for node in scope.body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            if public and not node.name.startswith("_") and not ast.get_docstring(node):
                found.append(f"{path.name}: {node.name}, line {node.lineno}")
    return found


def test_everything_public_has_a_docstring():
    assert [lack for path in sorted(LIB.rglob("*.py")) for lack in undocumented(path)] == []
