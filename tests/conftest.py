"""What tests of every folder share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from specbook import paths
from tools import ROOT, git, pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]
# Containers often set it, and then each worker, kernel and command compiles thousands of modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Several workers share two cores, and a thread that waits for another spins. Kernels and commands inherit it.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
gc.disable()  # until all tests are collected: imports leave next to nothing behind, and much to look through
LOADS = (
    "test_synthetic_acceptance", "test_auth_middleware", "test_intruders", "test_plans", "test_bench",
    "test_second_engine", "test_doors",
)  # fmt: skip
"""They import vLLM into their own process or load generator, which takes ten seconds, or they measure: a
machine runs one campaign at a time, and on two workers one would refuse the other."""
FOLDERS = ("pocket", "deploy")
"""Whose files share a tokenizer, and rendered manifests."""
CORPUS = ("test_greedy",)
"""Files elsewhere that read the corpus of tests/pocket: to parse Python's own library takes ten seconds."""
SHIPPED = ("test_skill", "test_stall", "test_shown", "test_shipped_records", "test_identity", "test_rows")
"""They read every shipped record, which takes seconds once for a process."""
LONGEST = (
    "loads", "book", "test_opposites", "pocket", "noisy", "test_surroundings", "test_build", "deploy",
    "test_server", "shipped",
)  # fmt: skip
"""Groups that take minutes. They begin first, on different workers, and what is quick fills the end."""


def pytest_sessionstart() -> None:
    """Tests would take the processor from a campaign that measures on this machine."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    try:
        with FileLock(paths.machine_lock(), blocking=False, mode=0o666):
            pass
    except Timeout:
        pytest.exit("a measurement runs on this machine, and tests would spoil it: wait for it", returncode=1)
    except OSError:  # the campaign says what is wrong with it
        pass


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n`), tests that share what is slow to make stay on one: see `_group`.

    A real engine on two cores that others use too may stand still for seconds, which is then measured: its
    tests are tried once more, and the summary says which were.
    """
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(_group(item), len(places)))
    for item in items:
        group = _group(item)
        item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("engine"):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if group == "book":  # the first of them draws and builds all pages
            item.add_marker(pytest.mark.timeout(1800))


def pytest_collection_finish() -> None:
    """What is imported by now stays: to look through it for garbage again and again would take minutes."""
    gc.freeze()
    gc.enable()


def _group(item: pytest.Item) -> str:
    """What is shared since it is slow to make, such as the built book and each server; else the file."""
    fixtures = getattr(item, "fixturenames", ())
    shared = {"html": "book", "control_plane": "cluster"}
    if item.get_closest_marker("engine"):  # real servers that live as long as their worker
        shared |= {"server": "loads", "played": "loads", "noisy": "noisy"}
    for fixture, group in shared.items():
        if fixture in fixtures:
            return group
    for group, files in {"loads": LOADS, "pocket": CORPUS, "shipped": SHIPPED}.items():
        if item.path.stem in files:
            return group
    return item.path.parent.name if item.path.parent.name in FOLDERS else item.path.stem


@pytest.fixture(scope="session", autouse=True)
def _no_loss_of_power() -> Iterator[None]:
    """Records are flushed to disk one by one, and tests write thousands: a disk may take long over each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project itself and its shipped records, whatever other fixtures point at."""
    for name in ("SPECBOOK_ROOT", "SPECBOOK_RESULTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of results/: a reader's own records take the place of shipped ones of the same machine."""
    folder = tmp_path_factory.mktemp("shipped")
    for name in git("ls-files", "-z", "results").split("\0"):
        if (ROOT / name).is_file():  # not one that was dropped and is not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(ROOT / name)
    return folder / "results"


@pytest.fixture
def only_shipped(project: None, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project with its shipped records alone."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(shipped))


@pytest.fixture(autouse=True)
def _not_the_books(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The book's session fixtures point at a copy of the project: no other test on that worker may see it."""
    if "root" not in request.fixturenames:
        for name in ("SPECBOOK_ROOT", "SPECBOOK_RESULTS"):
            monkeypatch.delenv(name, raising=False)
