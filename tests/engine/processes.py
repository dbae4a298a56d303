"""Which processes a server has, and which still run."""

import time

import psutil

from specbook.engine.server import Server


def core(server: Server) -> psutil.Process:
    """vLLM's process between the one that answers and the one that computes."""
    return next(one for one in map(psutil.Process, server.pids()) if "EngineCore" in one.name())


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
