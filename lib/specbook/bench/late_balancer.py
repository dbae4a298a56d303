"""A balancer that is late: a cloud's takes seconds to drop a pod, kube-proxy on one node takes none."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from specbook import paths
from specbook.errors import ClusterError

AWAKE_S = 0.5
"""Long enough for kube-proxy to write its rules once."""


@contextmanager
def late_balancer(lag_s: float) -> Iterator[None]:
    """Let the local cluster's kube-proxy write its rules at most every `lag_s`; 0 leaves it alone.

    Raises:
        ClusterError: if no kube-proxy of `make cluster` runs here.
    """
    if not lag_s:
        yield
        return
    proxy, done = _proxy(), threading.Event()

    def pause() -> None:
        while not done.is_set():
            os.kill(proxy, signal.SIGSTOP)
            done.wait(lag_s)
            os.kill(proxy, signal.SIGCONT)
            done.wait(AWAKE_S)

    pauses = threading.Thread(target=pause, name="late-balancer", daemon=True)
    pauses.start()
    try:
        yield
    finally:
        done.set()
        pauses.join()


def _proxy() -> int:
    """The process id of kube-proxy, as `make cluster` keeps it."""
    kept = paths.build_dir() / "cluster" / "run" / "pids.json"
    pid = json.loads(kept.read_text()).get("proxy") if kept.is_file() else None
    if pid is None or not os.path.exists(f"/proc/{pid}"):
        raise ClusterError(
            f"balancer_lag_s pauses the kube-proxy of `make cluster`, and {kept} names none that runs. "
            "To fix: `make cluster`, or leave balancer_lag_s out"
        )
    return int(pid)
