"""A one-node Kubernetes on this machine: `up`, `down`, `status`; `stop` and `start` adapter or prometheus."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import components
import image
import keys
import layers
import machine
import processes
import teardown
from places import BIN, NODE, POD_USER, PORTS, RUN, STORE, VOLUME, call

from specbook.deploy.kubectl import LOCAL_CONTEXT, Kubectl
from specbook.errors import ClusterError, SpecbookError

KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")
SINGLE = ("adapter", "prometheus")
METRICS = "specbook-metrics"


def kubectl() -> Kubectl:
    """kubectl, as the cluster's administrator."""
    return Kubectl(context=LOCAL_CONTEXT)


def up() -> None:
    """Build what is missing, start what does not run.

    Raises:
        ClusterError: with the component that failed and the end of its log.
    """
    began = time.monotonic()
    machine.check_this_machine()
    if set(processes.pids()) == set(components.commands()) and ready():
        print(f"The cluster is already up: context {LOCAL_CONTEXT}, {RUN / 'kubeconfig'}")
        return
    announce()
    build()
    if RUN.is_dir() and not processes.pids():
        print("cluster: cleaning up after an earlier run that was not taken down", flush=True)
        teardown.down()
    start_all()
    took_s = time.monotonic() - began
    print(f"cluster: up after {took_s:.0f} s. KUBECONFIG={RUN / 'kubeconfig'}, context {LOCAL_CONTEXT}")
    print(f"Prometheus: http://127.0.0.1:{PORTS['prometheus']}. `make cluster-down` takes it down whole.")


def announce() -> None:
    """What will be installed and built, before it is."""
    packages = machine.missing_packages(machine.COMMANDS)
    if missing_binaries():
        packages += machine.missing_packages(machine.BUILD_COMMANDS)
    print(f"cluster: Debian packages to install: {', '.join(packages) or 'none'} (they stay; apt-get remove)")
    print(f"cluster: to build into build/cluster: {', '.join(unbuilt()) or 'nothing'}", flush=True)
    if packages:
        machine.install(packages)


def missing_binaries() -> list[str]:
    """Programs of Kubernetes that are not built yet."""
    return [name for name in KUBERNETES if not (BIN / name).is_file()]


def unbuilt() -> list[str]:
    """What has to be built, with what it costs."""
    kubernetes = ["Kubernetes 1.20.2 (7 minutes on two cores)"] if missing_binaries() else []
    return kubernetes + [f"the image's layer {name}" for name in image.stale()]


def build() -> None:
    """Kubernetes and the server's image; each step that is done stays done."""
    if missing_binaries():
        print("cluster: building Kubernetes, log in build/log/kubernetes.log", flush=True)
        log = RUN.parents[1] / "log" / "kubernetes.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            script = Path(__file__).with_name("kubernetes.sh")
            done = subprocess.run(["bash", script, RUN.parent, layers.mirror()], stdout=file, stderr=file)
        if done.returncode != 0:
            raise ClusterError(
                f"Kubernetes was not built; {log} has the reason. Run again: finished steps stay"
            )
    image.built()


def start_all() -> None:
    """Start every component and wait until a pod could run."""
    commands = components.commands()
    machine.check_free(PORTS, processes.pids())
    RUN.mkdir(parents=True, exist_ok=True, mode=0o755)
    machine.prepare_network()
    if not (RUN / "kubeconfig").is_file():
        keys.make_keys()
    components.write_settings()
    processes.start("containerd", commands["containerd"])
    until("containerd", 30, lambda: call(*image.ctr("version")) != "")
    image.imported()
    for name in ("etcd", "apiserver"):
        processes.start(name, commands[name])
    until("apiserver", 90, lambda: kubectl().run("get", "--raw=/readyz", timeout_s=5) == "ok")
    for name, command in commands.items():
        processes.start(name, command)
    # Not a server-side apply: 1.20 has none for APIServices.
    objects = {"apiVersion": "v1", "kind": "List", "items": [*metrics_api(), volume()]}
    kubectl().run("apply", "-f", "-", stdin=json.dumps(objects))
    until("kubelet", 60, ready)


def until(name: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait for a component.

    Raises:
        ClusterError: with the end of its log, if it ends or takes too long.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except SpecbookError:
            pass  # not yet
        if name not in processes.pids() or time.monotonic() > deadline:
            raise ClusterError(
                f"{name} did not start. Its log {RUN}/{name}.log ends:\n{processes.log_end(name)}"
            )
        time.sleep(0.3)


def ready() -> bool:
    """Whether the node takes pods, metrics are served, and the account that pods run as exists."""
    try:
        conditions = kubectl().get("node", NODE)["status"]["conditions"]
        kubectl().run("get", "serviceaccount", "default", timeout_s=5)
        kubectl().run("get", "--raw=/apis/external.metrics.k8s.io/v1beta1", timeout_s=5)
    except ClusterError:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def metrics_api() -> list[dict]:
    """The external-metrics API, registered as components/external-metrics-adapter does."""
    place = {"name": "external-metrics-adapter", "namespace": METRICS}
    port = PORTS["adapter"]
    outside = {
        "type": "ExternalName",
        "externalName": "localhost",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    service = {
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {**place, "port": port},
    }
    registration = {"name": "v1beta1.external.metrics.k8s.io"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": METRICS}},
        {"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": outside},
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": registration,
            "spec": service,
        },
    ]


def volume() -> dict:
    """A volume for the campaign's records: a folder that pods may write, kept by `down`."""
    VOLUME.mkdir(exist_ok=True)
    os.chown(VOLUME, *POD_USER)
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": str(VOLUME)},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "records"}, "spec": spec}


def status() -> None:
    """Each component and its process id."""
    running = processes.pids()
    for name in components.commands():
        print(f"{name:20} {running.get(name, 'stopped')}")


def single(action: str, name: str) -> None:
    """Stop or start one component that a fault experiment takes away.

    Raises:
        ClusterError: if the name is another, or the cluster is down.
    """
    if name not in SINGLE:
        raise ClusterError(
            f"cannot {action} {name!r}: only {' and '.join(SINGLE)} can be taken away one by one"
        )
    if "apiserver" not in processes.pids():
        raise ClusterError("the cluster is down. To fix: make cluster")
    if action == "stop":
        print(f"{name}: {'stopped' if processes.stop(name) else 'did not run'}")
    else:
        print(f"{name}: process {processes.start(name, components.commands()[name])}")


def down() -> None:
    """Take the cluster down and say that nothing is left."""
    machine.check_root()
    if not RUN.is_dir():
        print("No cluster is up: nothing to take down.")
        return
    began = time.monotonic()
    teardown.down()
    took_s = time.monotonic() - began
    print(f"cluster: down after {took_s:.0f} s; no process, mount, bridge or rule of it is left.")
    print(f"Kept for the next start: {BIN}, {image.IMAGE}, {STORE}; records of a campaign: {VOLUME}.")
    print("`make clean` removes them.")


def main(words: list[str]) -> int:
    """Exit status of one command; a mistake is one message."""
    actions = {"up": up, "down": down, "status": status}
    try:
        match words:
            case [action] if action in actions:
                actions[action]()
            case ["stop" | "start" as action, name]:
                single(action, name)
            case _:
                raise ClusterError(f"unknown command {' '.join(words)!r}. {__doc__}")
    except SpecbookError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "cluster: interrupted. Run the same command again: it goes on where it stopped", file=sys.stderr
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
