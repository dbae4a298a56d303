"""A small process between us and an engine: when we are gone, however we went, so is the engine.

Run by path (`python -IS reaper.py GRACE_S COMMAND...`), standard library only, so that it starts in 30 ms.
Its standard input is a pipe from whoever started it: end of file means that the owner closed it or died, even
by SIGKILL. It adopts the engine's orphans (PR_SET_CHILD_SUBREAPER), ends the engine with SIGTERM, and after
GRACE_S seconds with SIGKILL, whatever process group the engine's own children chose.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _parents() -> Iterator[tuple[int, int]]:
    """(pid, parent pid) of every live process; nothing where there is no /proc."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                yield int(name), int(parent)


def descendants() -> set[int]:
    """Every live process below this one."""
    parents, pids = dict(_parents()), {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in pids and pid not in pids}:
        pids |= more
    return pids - {os.getpid()}


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_for_reason(engine: subprocess.Popen[bytes], wakeup: int, owner: int, stopping: list[int]) -> None:
    """Return when the engine ended, a signal asked to stop, or the owner is gone."""
    while engine.poll() is None and not stopping and os.getppid() == owner:
        readable, _, _ = select.select([0, wakeup], [], [], 1.0)
        if wakeup in readable:
            os.read(wakeup, 512)
        if 0 in readable and not os.read(0, 512):
            return


def _end(engine: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM, up to `grace_s` to drain, SIGKILL of all that is left."""
    deadline = time.monotonic() + grace_s
    _signal(descendants(), signal.SIGCONT)  # a paused engine would not hear SIGTERM
    if engine.poll() is None:
        engine.terminate()
    while engine.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    while left := descendants():
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(engine.pid, signal.SIGKILL)
    engine.wait()


def ending(status: int) -> str:
    """What `main`'s exit status says of the command, in words; Python has no name for every signal."""
    if status < 0:
        return f"lost its guard to signal {-status}"
    number = status - 128
    if number not in map(int, signal.valid_signals()):
        return f"exited with code {status}"
    names = {int(each): each.name for each in signal.Signals}
    return f"was ended by {names.get(number, f'signal {number}')}"


def main(argv: list[str]) -> int:
    """Guard one command; returns its exit status, 128 + n when signal n ended it."""
    owner, stopping = os.getppid(), []
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wakeup, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.append(1))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Should the guard be killed, the kernel asks the engine to end: killed too, it would leave its children.
    engine = subprocess.Popen(
        argv[1:],
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    _wait_for_reason(engine, wakeup, owner, stopping)
    _end(engine, float(argv[0]))
    return engine.returncode if engine.returncode >= 0 else 128 - engine.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
