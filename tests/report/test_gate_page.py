"""The page of `compare` and `gate`: what records say of real upgrades, and how often replays are wrong."""

import re

import pytest

from specbook import paths
from specbook.report import gate_page


@pytest.fixture
def page(prose):
    return (prose / "compare.md").read_text()


def part(page: str, title: str) -> str:
    return page.split(f"# {title}\n")[1].split("\n# ")[0]


def test_a_weaker_head_is_named_as_the_cause(page):
    said = part(page, "Another head")
    assert re.search(
        r"B is slower by \d.*the acceptance length fell by.*the time of a step is not shown", said
    )


def test_a_slower_engine_is_named_as_the_cause(page):
    said = part(page, "Another mode of the engine")
    assert re.search(r"B is slower by \d.*the time of a step rose by", said)
    assert "acceptance length fell" not in said


def test_false_alarms_and_power_are_drawn_and_listed(page):
    said = part(page, "False alarms and power")
    assert 'id="fig-power"' in said
    assert all(word in said for word in ("false alarms", "10 % slower", "a cell", "all cells"))


def test_without_records_each_part_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(paths.root()))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    assert gate_page.render().count(gate_page.NOTHING) == len(gate_page.UPGRADES) + 1
