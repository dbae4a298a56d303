"""The page of variants: six of each kind or more, each with its threads; what it quotes is said."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "variants.md").read_text()
THREAD = re.compile(r"\[[\w.-]+ \d+\]\(https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+\)")
KINDS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
AROUND = ("Exec format error",)
"""What stands in a quoted message and is the system's."""


def variants(kind: str) -> list[list[str]]:
    rows = [line.strip("|").split(" | ") for line in KINDS[kind].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_six_variants_or_more(kind):
    assert len(variants(kind)) >= 6
    assert all(len(row) == 3 for row in variants(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_each_variant_names_its_threads(kind):
    for name, threads, _ in variants(kind):
        assert all(THREAD.fullmatch(one) for one in threads.split(", ")), name


def messages() -> str:
    """Every text of the package, strings over several lines joined."""
    text = "".join(path.read_text() for path in sorted((ROOT / "lib" / "specbook").rglob("*.py")))
    return re.sub(r"\"\s*\n\s*f?\"", "", text)


def test_every_quoted_message_is_one_of_ours():
    said = messages()
    quoted = [
        text for kind in KINDS for row in variants(kind) for text in re.findall(r"\"([^\"]+)\"", row[2])
    ]
    assert len(quoted) > 15
    for text in quoted:
        for part in text.replace(AROUND[0], "...").split("..."):
            assert part.strip(" ()") in said, text
