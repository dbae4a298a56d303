"""Where the cluster lives, what it listens on, and how its commands run."""

import hashlib
import subprocess
from pathlib import Path

from specbook import paths
from specbook.errors import ClusterError

CLUSTER = paths.build_dir() / "cluster"
BIN = CLUSTER / "bin"
IMAGE = CLUSTER / "image"
STORE = CLUSTER / "containerd"
"""containerd's images: kept by `make cluster-down`, so that the next start does not import 4 GB again."""
VOLUME = CLUSTER / "volume"
"""What pods write for good: a campaign's records."""
POD_USER = (10001, 10001)
"""User and group of the image."""
RUN = CLUSTER / "run"
"""Everything of one cluster's life: keys, state, logs, process ids. `make cluster-down` removes it."""

BRIDGE = "specbook0"
NODE = "node-1"
NODE_IP = "10.99.0.1"
POD_RANGE = "10.99.0.0/24"  # not 10.88: podman's default bridge has that, and pods would have no route
SERVICE_RANGE = "10.98.0.0/24"
SERVICE_IP = "10.98.0.1"
PORTS = {  # below 32768, where the kernel's own begin, and off 30000-32767, where NodePorts are
    "apiserver": 16443,
    "etcd": 12379,
    "etcd-peers": 12380,
    "controller-manager": 20257,
    "scheduler": 20259,
    "kubelet": 20250,
    "kubelet-health": 20248,
    "proxy-health": 20256,
    "proxy-metrics": 20249,
    "adapter": 20443,
    "prometheus": 20090,
}


def call(*command: str | Path, timeout_s: float = 120, **options) -> str:
    """Standard output of a command.

    Raises:
        ClusterError: with the end of what it printed, if it fails or takes longer than `timeout_s`.
    """
    line = [str(word) for word in command]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, **options)
    except FileNotFoundError:
        raise ClusterError(f"{line[0]} is missing. To fix: `make cluster` as root installs it") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{line[0]} took more than {timeout_s:g} s") from None
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(line[:4])}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def digest(*parts: str | bytes) -> str:
    """A short key of what something is made from."""
    blocks = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"\0".join(blocks)).hexdigest()[:16]
