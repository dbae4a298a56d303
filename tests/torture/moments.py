"""Signals, deaths, full disks and second campaigns at random moments of a campaign; only for `make torture`.

After each: one message, no process left, every record of before still there and sound. Run once more without
harm, the campaign measures what is missing, and has all its points.
"""

import os
import random
import signal
import time

import psutil
import pytest
from torture_chance import SEED
from torture_project import CAMPAIGN, Project, ended, wait_until

from specbook.engine.preflight import free_port

ROUNDS = 60
"""More than ten minutes hold."""
ENDINGS = {
    "kill -9": (signal.SIGKILL,), "SIGTERM": (signal.SIGTERM,), "SIGHUP": (signal.SIGHUP,),
    "SIGQUIT": (signal.SIGQUIT,), "Ctrl-C": (signal.SIGINT,), "Ctrl-C twice": (signal.SIGINT, signal.SIGINT),
    "stopped and continued": (signal.SIGSTOP, signal.SIGCONT),
}  # fmt: skip
PARTS = {"server": "serve.py", "guard": "reaper.py", "load generator": "torture_load.py"}
rounds = pytest.mark.parametrize("nth", range(ROUNDS))


@pytest.fixture
def chance(request):
    """Of this case and round."""
    return random.Random(f"{SEED}/{request.node.name}")


@pytest.fixture(scope="session")
def whole_s(tmp_path_factory) -> float:
    """How long a campaign takes here that nothing happens to, from its first own line of code."""
    project = Project(tmp_path_factory.mktemp("whole") / "project")
    process = project.start(*CAMPAIGN)
    began = project.begun(process)
    said = ended(process)
    assert (said.code, "8 points measured now, 0 of them failed" in said.out) == (0, True), said
    return time.monotonic() - began


def under_way(small: Project, chance: random.Random, whole_s: float):
    """A campaign that was started, at a random moment of it."""
    process = small.start(*CAMPAIGN)
    small.begun(process)
    time.sleep(chance.uniform(0, whole_s))
    return process


def strike(process, signals) -> None:
    """As a terminal or a service manager sends them: to the group."""
    for number in signals:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        time.sleep(0.05)


@rounds
@pytest.mark.parametrize("how", ENDINGS)
def test_a_campaign_is_ended(small, chance, whole_s, how, nth):
    for _ in range(2):
        process = under_way(small, chance, whole_s)
        small.look()
        strike(process, ENDINGS[how])
        said = ended(process)
        if how.startswith("Ctrl-C"):
            assert said.code in (0, 130)
            said.clear()
        elif how.startswith("stopped"):
            assert said.code == 0
        small.is_sound()
    small.finishes()


@rounds
@pytest.mark.parametrize("part", PARTS)
def test_a_part_dies(small, chance, whole_s, part, nth):
    def found():
        return [p for p in small.processes() if PARTS[part] in " ".join(p.cmdline())]

    process = under_way(small, chance, whole_s)
    wait_until(lambda: found() or process.poll() is not None, 30)
    small.look()
    for victim in found()[:1]:
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            continue
    said = ended(process)
    assert said.code in (0, 1)
    assert "Traceback" not in said.err
    small.is_sound()
    small.finishes()


@rounds
@pytest.mark.parametrize("command", [CAMPAIGN, ("check",), ("run", "01", "--dry-run")], ids=" ".join)
def test_ctrl_c_in_the_first_two_seconds(small, chance, command, nth):
    process = small.start(*command)
    small.begun(process)
    time.sleep(chance.uniform(0, 2))
    strike(process, ENDINGS["Ctrl-C"])
    said = ended(process)
    assert said.code in (0, 130)
    said.clear()
    small.is_sound()


@rounds
@pytest.mark.parametrize("to", ["a pipe", "a file"])
def test_no_file_may_grow_further(small, chance, to, nth):
    """As under `ulimit -f`; a standard output that is a file is held to it too."""
    with (small.folder / "said").open("w") as out:
        largest = round(10 ** chance.uniform(1, 5))
        said = small.run(*CAMPAIGN, largest_file=largest, **({"stdout": out} if to == "a file" else {}))
    assert said.code in (0, 1)
    assert "Traceback" not in said.err
    small.is_sound()
    small.finishes()


@rounds
def test_results_can_no_longer_be_written(small, chance, whole_s, nth):
    process = under_way(small, chance, whole_s)
    small.results.mkdir(exist_ok=True)
    small.look()
    aside = small.results.rename(small.folder / "aside")
    try:
        small.results.touch()
    except FileExistsError:
        process.kill()
    said = ended(process)
    said.clear()
    small.nothing_runs()
    if small.results.is_file():
        small.results.unlink()
        aside.rename(small.results)
    small.is_sound()
    small.finishes()


@rounds
def test_a_second_campaign_starts(small, chance, whole_s, nth):
    first = under_way(small, chance, whole_s)
    small.look()
    second = small.run(*CAMPAIGN)
    second.clear()
    assert second.code == 0 or "another measurement runs on this machine" in second.err
    assert ended(first).code == 0
    small.is_sound()
    small.finishes()


@rounds
@pytest.mark.parametrize("command", ["serve", "ask"])
@pytest.mark.parametrize("how", ["kill -9", "SIGTERM", "Ctrl-C", "Ctrl-C twice"])
def test_a_server_is_ended(small, chance, command, how, nth):
    arguments = ("ask", "a b") if command == "ask" else ("serve", "--port", str(free_port()))
    process = small.start(*arguments, "--profile", "cpu/echo")
    small.begun(process)
    time.sleep(chance.uniform(0, 4))
    strike(process, ENDINGS[how])
    said = ended(process)
    if how.startswith("Ctrl-C"):
        said.clear()
    small.nothing_runs()
