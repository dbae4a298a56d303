"""What the cluster needs of the machine and changes on it: packages, ports, kernel settings, a bridge."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path

from places import BRIDGE, NODE_IP, RUN, SERVICE_RANGE, STORE, call

from specbook.errors import ClusterError

COMMANDS = {  # Debian's package -> a file of it
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "/usr/sbin/iptables",
    "conntrack": "/usr/sbin/conntrack",
    "iproute2": "/usr/sbin/ip",
    "socat": "/usr/bin/socat",
    "openssl": "/usr/bin/openssl",
    "debootstrap": "/usr/sbin/debootstrap",
    "prometheus": "/usr/bin/prometheus",
}
BUILD_COMMANDS = {"gcc": "/usr/bin/gcc", "libc6-dev": "/usr/include/stdio.h", "curl": "/usr/bin/curl"}
SETTINGS = [  # what kubelet, kube-proxy and we write
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
]
BEFORE = RUN / "before.json"
FREE_GB = 20
ELSEWHERE = "kind, minikube or EKS needs none of this: name its context instead"


def missing_packages(wanted: dict[str, str], root: Path = Path("/")) -> list[str]:
    """Debian packages whose file is not there."""
    return [name for name, file in wanted.items() if not (root / file.lstrip("/")).exists()]


def check_machine(uid: int, system: str, release: str) -> None:
    """Refuse a machine on which the cluster cannot run.

    Raises:
        ClusterError: unless this is root on Debian 12, x86_64.
    """
    if uid != 0:
        raise ClusterError(
            f"`make cluster` needs root; this is user {uid}. To fix: sudo make cluster. {ELSEWHERE}"
        )
    if system != "x86_64" or "VERSION_CODENAME=bookworm" not in release:
        raise ClusterError(f"`make cluster` needs Debian 12 on x86_64; this is another system. {ELSEWHERE}")


def check_this_machine() -> None:
    """The same, of this machine; and that it has room."""
    release = Path("/etc/os-release")
    check_machine(os.getuid(), platform.machine(), release.read_text() if release.is_file() else "")
    free = shutil.disk_usage(RUN.parents[1]).free / 1e9
    if not STORE.is_dir() and free < FREE_GB:
        raise ClusterError(
            f"{free:.0f} GB are free and the build takes {FREE_GB}. To fix: make room on that disk"
        )


def check_root() -> None:
    """Refuse anybody else.

    Raises:
        ClusterError: unless this is root.
    """
    if os.getuid() != 0:
        raise ClusterError(f"this needs root; this is user {os.getuid()}. To fix: run it with sudo")


def check_free(ports: dict[str, int], running: dict[str, int]) -> None:
    """Refuse to start where something else listens or another Kubernetes runs.

    Raises:
        ClusterError: with every taken port and its component, or the other kubelet's process id.
    """
    waiting = {name: port for name, port in ports.items() if not any(name.startswith(own) for own in running)}
    taken = [f"{port} ({name})" for name, port in waiting.items() if not free_port(port)]
    if taken:
        raise ClusterError(
            f"ports are taken: {', '.join(taken)}. To fix: end what `ss -ltnp` names, and run again"
        )
    if other := foreign_kubelet(list(running.values())):
        raise ClusterError(
            f"another Kubernetes runs here (process {other}). To fix: use its context, or end it first"
        )


def free_port(port: int) -> bool:
    """Whether nothing listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def install(packages: list[str]) -> None:
    """Install Debian packages, and keep their services from starting: the cluster runs its own."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        call("apt-get", "update", timeout_s=600)
        call(
            "apt-get",
            "install",
            "--yes",
            "--no-install-recommends",
            *packages,
            timeout_s=1800,
            env=environment,
        )
    finally:
        if ours:
            policy.unlink()


def prepare_network() -> None:
    """Remember what the machine had, then make the bridge; does nothing where that is done."""
    if not BEFORE.is_file():
        BEFORE.write_text(json.dumps({"settings": settings(), "chains": chains()}, indent=1))
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        call("ip", "link", "add", BRIDGE, "type", "bridge")
    call("ip", "address", "replace", f"{NODE_IP}/24", "dev", BRIDGE)
    call("ip", "link", "set", BRIDGE, "up")
    # So that a Service is reached on a machine without a default route too.
    call("ip", "route", "replace", SERVICE_RANGE, "dev", BRIDGE)
    change({"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"})


def before() -> dict:
    """What the machine had before the cluster: `settings` of the kernel, `chains` of iptables."""
    return json.loads(BEFORE.read_text()) if BEFORE.is_file() else {"settings": {}, "chains": []}


def settings() -> dict[str, str]:
    """The kernel's settings that the cluster changes, as they are now."""
    files = {name: Path("/proc/sys") / name for name in SETTINGS}
    return {name: file.read_text().strip() for name, file in files.items() if file.is_file()}


def chains() -> list[str]:
    """Chains of Kubernetes and of CNI's port mapping, as they are now; podman has some of the latter too."""
    rules = call("iptables-save") + call("ip6tables-save")
    return sorted(set(re.findall(r"^:((?:KUBE|CNI)-\S+)", rules, re.M)))


def change(values: dict[str, str]) -> None:
    """Write settings of the kernel; those that it does not have are left out."""
    for name, value in values.items():
        file = Path("/proc/sys") / name
        if file.is_file() and file.read_text().strip() != value:
            file.write_text(value)


def restore_settings() -> None:
    """Give the kernel its earlier settings back."""
    change(before()["settings"])


def foreign_kubelet(mine: list[int]) -> int | None:
    """The process id of another Kubernetes' kubelet; two would fight over iptables and control groups."""
    done = subprocess.run(["pgrep", "-x", "kubelet|k3s|k0s"], capture_output=True, text=True)
    return next((int(pid) for pid in done.stdout.split() if int(pid) not in mine), None)
