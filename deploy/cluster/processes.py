"""The cluster's processes: started apart from the terminal, ended by the ids that were kept."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from places import RUN

PIDS = RUN / "pids.json"


def pids() -> dict[str, int]:
    """Component -> process id, of those that run."""
    kept = json.loads(PIDS.read_text()) if PIDS.is_file() else {}
    return {name: pid for name, pid in kept.items() if ours(pid)}


def ours(pid: int) -> bool:
    """Whether a process of ours has this id; the kernel gives ids again, so its working directory decides."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink().is_relative_to(RUN)
    except OSError:
        return False


def all_ours() -> list[int]:
    """Every process that works below build/cluster/run, kept or not: components, and containerd's shims."""
    running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in running if pid != os.getpid() and ours(pid)]


def start(name: str, command: list[str]) -> int:
    """The id of a new process that logs to build/cluster/run/NAME.log, or of the one that runs already."""
    if name in pids():
        return pids()[name]
    with (RUN / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=RUN, start_new_session=True
        )
    keep(pids() | {name: process.pid})
    return process.pid


def stop(name: str, grace_s: float = 10) -> bool:
    """Whether a component ran; it does not when this returns."""
    pid = pids().get(name)
    if pid is not None:
        end(pid, grace_s)
        keep({other: each for other, each in pids().items() if other != name})
    return pid is not None


def end(pid: int, grace_s: float = 10) -> None:
    """SIGTERM, then SIGKILL after `grace_s`."""
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not ours(pid):
                return
            time.sleep(0.05)


def keep(running: dict[str, int]) -> None:
    """Write pids.json in one step: an interrupted start must not lose the ids."""
    part = PIDS.with_suffix(".part")
    part.write_text(json.dumps(running, indent=1))
    part.rename(PIDS)


def log_end(name: str, lines: int = 5) -> str:
    """The last lines that a component printed."""
    log = RUN / f"{name}.log"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.is_file() else ""
