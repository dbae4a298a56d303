"""`make cluster-down`: end everything, take every trace off the machine, and say what is left."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import machine
import processes
from image import ctr
from places import BRIDGE, RUN, call

from specbook.deploy.kubectl import LOCAL_CONTEXT, Kubectl
from specbook.errors import ClusterError

CNI_RECORDS = Path("/var/lib/cni/results")
"""What CNI did for each container; it outlives containerd."""


def down() -> None:
    """Everything but the binaries, the image and containerd's copy of it.

    Raises:
        ClusterError: with what is left, if anything is.
    """
    networks = network_namespaces()
    steps: list[Callable[[], object]] = [
        *(
            lambda name=name: processes.stop(name)
            for name in ("adapter", "prometheus", "controller-manager", "scheduler")
        ),
        delete_pods,
        *(lambda name=name: processes.stop(name) for name in ("kubelet", "proxy", "apiserver", "etcd")),
        remove_containers,
        lambda: processes.stop("containerd"),
        lambda: [processes.end(pid) for pid in processes.all_ours()],
        lambda: remove_networks(networks),
        remove_rules,
        unmount,
        remove_control_groups,
        machine.restore_settings,
    ]
    for step in steps:
        try:
            step()
        except (
            ClusterError
        ) as error:  # the next steps do not need it, and the check at the end is what counts
            print(f"  {error}", flush=True)
    left = leftovers()
    if left:
        raise ClusterError(
            "this is left of the cluster: " + "; ".join(left) + ". To fix: run `make cluster-down` again"
        )
    shutil.rmtree(RUN, ignore_errors=True)


def delete_pods() -> None:
    """Let the kubelet end the pods, which also frees their networks; what stays is killed afterwards."""
    if {"apiserver", "kubelet", "containerd"} <= processes.pids().keys():
        cluster = Kubectl(context=LOCAL_CONTEXT)
        cluster.run("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--wait=false")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and sandboxes():
            time.sleep(0.5)


def sandboxes() -> list[str]:
    """Ids of containerd's tasks; none if it does not run."""
    if "containerd" not in processes.pids():
        return []
    return call(*ctr("tasks", "ls", "--quiet")).split()


def remove_containers() -> None:
    """Kill and remove what the kubelet left, snapshots with it."""
    for task in sandboxes():
        subprocess.run(ctr("tasks", "kill", "--signal", "SIGKILL", task), capture_output=True)
        subprocess.run(ctr("tasks", "delete", "--force", task), capture_output=True)
    if "containerd" in processes.pids():
        for container in call(*ctr("containers", "ls", "--quiet")).split():
            call(*ctr("containers", "delete", container))


def network_namespaces() -> list[Path]:
    """Network namespaces of our pods, as containerd's records of the sandboxes name them."""
    if "containerd" not in processes.pids():
        return [Path(line) for line in kept_namespaces()]
    names = set()
    for container in call(*ctr("containers", "ls", "--quiet")).split():
        spec = json.loads(call(*ctr("containers", "info", container)))["Spec"]["linux"]["namespaces"]
        names |= {
            entry["path"]
            for entry in spec
            if entry["type"] == "network" and entry.get("path", "").startswith("/")
        }
    return [Path(name) for name in sorted(names) if "/netns/cni-" in name]


def kept_namespaces() -> list[str]:
    """The same without containerd: namespaces of the networks that CNI has on record for our bridge."""
    records = (json.loads(file.read_text()) for file in CNI_RECORDS.glob("specbook-*"))
    interfaces = (each for record in records for each in record["result"]["interfaces"])
    return [interface["sandbox"] for interface in interfaces if interface.get("sandbox")]


def remove_networks(namespaces: list[Path]) -> None:
    """Pods' namespaces, the bridge, and CNI's records of both."""
    for namespace in namespaces:
        subprocess.run(["umount", "-l", namespace], capture_output=True)
        namespace.unlink(missing_ok=True)
    for file in CNI_RECORDS.glob("specbook-*"):
        container = file.name.split("-")[1]
        for record in CNI_RECORDS.glob(f"*-{container}-*"):  # its loopback has a record too
            record.unlink()
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        call("ip", "link", "delete", BRIDGE)  # a namespace takes its end of a veth with it, and so the other


def remove_rules() -> None:
    """Chains of kube-proxy and kubelet, and of mapped ports; `kube-proxy --cleanup` leaves empty ones."""
    ours = set(machine.chains()) - set(machine.before()["chains"])
    for family in ("iptables", "ip6tables"):
        saved = call(f"{family}-save")
        for table in ("nat", "filter", "mangle"):
            remove_chains(family, table, saved, ours)


def remove_chains(family: str, table: str, saved: str, ours: set[str]) -> None:
    """Remove one table's chains of ours, the rules that jump to them first."""
    section = next((part for part in saved.split("*")[1:] if part.startswith(table)), "")
    chains = [chain for chain in re.findall(r"^:(\S+)", section, re.M) if chain in ours]
    for line in section.splitlines():
        if any(f"-j {chain}" in line for chain in chains) and line.startswith("-A "):
            call("sh", "-c", f"{family} -t {table} -D {line[3:]}")
    for option in ("-F", "-X"):
        for chain in chains:
            call(family, "-t", table, option, chain)


def unmount() -> None:
    """Containers' roots and the kubelet's volumes."""
    for point in sorted(mounts(), reverse=True):
        call("umount", "-l", point)


def mounts() -> list[str]:
    """Mount points below build/cluster."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [point for point in (line.split()[1] for line in lines) if point.startswith(f"{RUN.parent}/")]


def control_groups() -> list[Path]:
    """The kubelet's control groups, innermost first."""
    tops = [top for top in Path("/sys/fs/cgroup").glob("kubepods")] + list(
        Path("/sys/fs/cgroup").glob("*/kubepods")
    )
    return [
        group
        for top in tops
        if not top.parent.is_symlink()
        for group in [*sorted(top.rglob("*/"), reverse=True), top]
    ]


def remove_control_groups() -> None:
    """Remove the kubelet's control groups, which are empty by now."""
    for group in control_groups():
        if group.is_dir():
            group.rmdir()


def leftovers() -> list[str]:
    """What is still on the machine, in words."""
    rules = sorted(set(machine.chains()) - set(machine.before()["chains"]))
    left = {
        "processes": [str(pid) for pid in processes.all_ours()],
        "mounts": mounts(),
        "control groups": [str(group) for group in control_groups()],
        "iptables chains": rules,
        "bridge": [BRIDGE] if Path(f"/sys/class/net/{BRIDGE}").exists() else [],
    }
    return [f"{kind}: {', '.join(names[:5])}" for kind, names in left.items() if names]
