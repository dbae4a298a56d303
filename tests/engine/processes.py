"""Which processes still run."""

import time

import psutil

from specbook.engine.server import Server


def runs(pid: int) -> bool:
    """Whether it is there, and more than a zombie that nobody has asked for yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def left(pids: list[int], within_s: float = 60) -> list[int]:
    """Those of `pids` that still run after `within_s`."""
    deadline = time.monotonic() + within_s
    while (alive := [pid for pid in pids if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def core(server: Server) -> psutil.Process:
    """The one in which a vLLM computes."""
    return next(p for p in map(psutil.Process, server.pids()) if "EngineCore" in p.name())
