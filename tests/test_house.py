"""The house: packages import one way, say what enters and leaves, and are drawn as they are."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIB = ROOT / "lib" / "specbook"
PACKAGES = sorted(path.parent.name for path in LIB.glob("*/__init__.py"))
GROUND = {"console", "errors", "paths", "suggestions"}
"""Modules beside the packages, under all of them; `cli` stands over them."""
ARITHMETIC = {
    "collections", "functools", "itertools", "math", "numpy", "pandas", "pydantic", "scipy", "typing",
}  # fmt: skip
"""What `stats` may import."""
MAY_IMPORT = {
    "config": set(),
    "stats": {"config"},
    "records": {"config", "stats"},
    "engine": {"config", "records"},
    "bench": {"config", "deploy", "engine", "records", "stats"},
    "analysis": {"config", "records", "stats"},
    "report": {"analysis", "bench", "config", "deploy", "engine", "records", "stats"},
    "deploy": set(),
    "cli": {"analysis", "bench", "config", "deploy", "engine", "records", "report", "stats"},
}


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return frozenset(found)


def neighbours(name: str) -> set[str]:
    """Packages, and modules beside them, that the package `name`, or the module, imports."""
    files = (LIB / name).rglob("*.py") if (LIB / name).is_dir() else [LIB / f"{name}.py"]
    names = set().union(*map(imported, files))
    return {other.split(".")[1] for other in names if other.startswith("specbook.")} - {name}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_one_way(package):
    assert neighbours(package) <= MAY_IMPORT[package] | GROUND


def test_statistics_read_no_file_and_know_no_engine():
    """They take numbers and give numbers, so they need no library that could read anything else."""
    modules = list((LIB / "stats").glob("*.py"))
    beside = ("specbook.stats.", "specbook.errors.", "specbook.config.schema.")
    names = [name for name in set().union(*map(imported, modules)) if not name.startswith(beside)]
    assert {name.split(".")[0] for name in names} <= ARITHMETIC
    assert not [path for path in modules if re.search(r"\bopen\(|\.read_|resolve_model", path.read_text())]


def test_the_ground_stands_on_nothing():
    assert all(neighbours(name) <= GROUND for name in GROUND)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_enters_and_what_leaves(package):
    said = ast.get_docstring(ast.parse((LIB / package / "__init__.py").read_text()))
    assert re.search(r"\bIn: .+\bOut: ", said, re.DOTALL), said


def test_nothing_outside_its_folder_imports_an_engine():
    for engine in (path.parent for path in LIB.glob("engine/*/__init__.py")):
        own = (f"{engine.name}.", f"specbook.engine.{engine.name}.")
        outside = [path for path in LIB.rglob("*.py") if not path.is_relative_to(engine)]
        assert len(outside) > 50
        for path in outside:
            assert not [name for name in imported(path) if f"{name}.".startswith(own)], path


def test_figures_draw_and_leave_computing_to_analysis():
    for path in (LIB / "report" / "figures").glob("*.py"):
        computing = [name for name in imported(path) if f"{name}.".startswith(("scipy.", "specbook.stats."))]
        assert computing == [], path


def test_nothing_imports_the_trainers():
    outside = [*LIB.rglob("*.py"), *(ROOT / "deploy").rglob("*.py")]
    assert [
        path for path in outside if any(f"{name}.".startswith("pocket.") for name in imported(path))
    ] == []


def test_no_two_test_files_share_a_name():
    """Pytest imports them by it, and stops at the second."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def flow() -> str:
    """A Mermaid graph: an arrow where a package enters another, none that follows from the others."""
    enters = {name: neighbours(name) & set(PACKAGES) for name in PACKAGES}

    def all_under(name: str) -> set[str]:
        return enters[name].union(*map(all_under, enters[name]))

    direct = {
        name: under - set().union(*map(all_under, under)) if under else set()
        for name, under in enters.items()
    }
    arrows = [f"  {under} --> {name}" for name in PACKAGES for under in sorted(direct[name])]
    alone = [f"  {name}" for name in PACKAGES if not enters[name] and f" {name} -->" not in "".join(arrows)]
    return "\n".join(["```mermaid", "flowchart LR", *arrows, *alone, "```"])


def test_the_diagram_shows_the_imports():
    assert flow() in (ROOT / "CONTRIBUTING.md").read_text(), f"put this into CONTRIBUTING.md:\n{flow()}"
