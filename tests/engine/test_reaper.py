"""The guard, over a stand-in for an engine whose child runs away into a session of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from processes import left

from specbook.engine import reaper

# Prints its own pid and the runaway's; `deaf` ignores SIGTERM, as an engine that hangs does.
ENGINE = """
import os, signal, subprocess, sys, time
if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
if sys.argv[1] == "crash":
    os._exit(7)
time.sleep(600)
"""
OWNER = """
import subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
time.sleep(600)
"""


def command(kind: str) -> list[str]:
    grace_s = 0.5 if kind == "deaf" else 20  # what hears may take its time where others are busy
    return [sys.executable, "-IS", reaper.__file__, str(grace_s), sys.executable, "-c", ENGINE, kind]


def start(kind: str) -> tuple[subprocess.Popen[str], list[int]]:
    """The guard, and the pids of engine and runaway."""
    process = subprocess.Popen(command(kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize("kind", ["plain", "deaf"])
def test_closing_the_pipe_ends_everything(kind):
    process, pids = start(kind)
    assert left(pids, 0) == pids
    process.stdin.close()
    assert process.wait(60) == 128 + (signal.SIGKILL if kind == "deaf" else signal.SIGTERM)
    assert left(pids, 0) == []


def test_a_paused_engine_hears_that_it_shall_end():
    process, pids = start("plain")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    process.stdin.close()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert left(pids, 0) == []


def test_a_crash_gives_its_status_and_leaves_no_child():
    process, pids = start("crash")
    assert process.wait(60) == 7
    assert left(pids, 0) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (7, "exited with code 7"),
        (137, "was ended by SIGKILL"),
        (168, "was ended by signal 40"),  # a real-time signal: Python has no name for it
        (193, "exited with code 193"),  # 128 + 65, and signals end at 64
        (255, "exited with code 255"),
        (-9, "lost its guard to signal 9"),
    ],
)
def test_every_ending_has_words(status, words):
    assert reaper.ending(status) == words


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_to_the_guard_end_everything(number):
    process, pids = start("plain")
    process.send_signal(number)
    process.wait(60)
    assert left(pids, 0) == []


def test_kill_9_of_the_owner_ends_everything():
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *command("deaf")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    guards = [child.pid for child in psutil.Process(owner.pid).children()]
    owner.kill()
    owner.wait()
    assert left([*pids, *guards]) == []


def test_kill_9_of_the_guard_asks_the_engine_to_end():
    """With SIGTERM, on which vLLM ends its own children; this stand-in does not."""
    process, (engine, runaway) = start("plain")
    process.kill()
    process.wait()
    assert left([engine]) == []
    os.kill(runaway, signal.SIGKILL)


def test_the_guard_needs_nothing_but_the_standard_library():
    source = Path(reaper.__file__).read_text()
    imports = {
        line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))
    }
    assert imports <= sys.stdlib_module_names
