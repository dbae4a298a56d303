"""A real Kubernetes API server and its controllers, without a node: no pod runs, a test plays the kubelet.

From the programs that `make cluster` builds, on free ports of 127.0.0.1; up in about ten seconds.
"""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

import tools
from specbook.deploy.kubectl import Kubectl
from specbook.errors import ClusterError

USERS = {"admin": "system:masters", "deployer": "specbook-deployers", "stranger": "strangers"}
"""User to group: deploy/rbac.yaml gives rights to the deployers."""
CONTROLLERS = "deployment,replicaset,job,namespace,garbagecollector,resourcequota"
READY_S = 90
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SUCCEEDED = {"phase": "Succeeded", "conditions": []}


def token(user: str) -> str:
    """What a user logs in with, and what no output may hold."""
    return f"{user}-token-that-must-not-be-shown"


def kubeconfig(server: str, current: str = "deployer") -> str:
    """One context a user."""
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token(user)}} for user in USERS],
        "contexts": [{"name": user, "context": {"cluster": "test", "user": user}} for user in USERS],
    }
    return json.dumps(content)


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """The kubeconfig of a control plane that runs while the block lasts."""
    client, peer, secure, manager = free_ports(4)
    etcd, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    for user in ("admin", "deployer"):
        (folder / user).write_text(kubeconfig(f"https://127.0.0.1:{secure}", user))
    tokens = [f"{token(user)},{user},{user},{group}\n" for user, group in USERS.items()]
    (folder / "tokens.csv").write_text("".join(tokens))
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    (folder / "audit.yaml").write_text(json.dumps(policy))
    subprocess.run(["openssl", "genrsa", "-out", folder / "key", "2048"], check=True, capture_output=True)
    with ExitStack() as stack:
        stack.enter_context(_program(
            folder, "etcd", "--data-dir=etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        ))  # fmt: skip
        stack.enter_context(_program(
            folder, "kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={secure}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--cert-dir=certs",
            "--token-auth-file=tokens.csv", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://tests", "--service-account-key-file=key",
            "--service-account-signing-key-file=key", "--audit-policy-file=audit.yaml",
            "--audit-log-path=audit.log",
        ))  # fmt: skip
        _until_ready(Kubectl(kubeconfig=folder / "admin"))
        stack.enter_context(_program(
            folder, "kube-controller-manager", "--kubeconfig=admin", "--leader-elect=false", "--port=0",
            f"--secure-port={manager}", "--bind-address=127.0.0.1", "--cert-dir=certs-manager",
            f"--controllers={CONTROLLERS}",
        ))  # fmt: skip
        yield folder / "deployer"


def free_ports(number: int) -> list[int]:
    """Ports of 127.0.0.1 on which nobody listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]


def _until_ready(kubectl: Kubectl) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            kubectl.run("get", "--raw=/readyz")
            return
        except ClusterError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


@contextmanager
def _program(folder: Path, name: str, *flags: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([tools.CLUSTER / name, *flags], cwd=folder, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Kubelet:
    """Plays the nodes: says of pods what a kubelet would, by their namespace, as soon as they exist."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.says: dict[str, dict] = {}
        """Namespace to the status that its pods get; pods of a Job succeed where it has none."""

    def run(self, ended: threading.Event) -> None:
        """Until the event."""
        while not ended.wait(0.2):
            with suppress(httpx.HTTPError):
                for pod in self._client.get("/api/v1/pods").json()["items"]:
                    self._tell(pod["metadata"], "job-name" in pod["metadata"].get("labels", {}))

    def _tell(self, metadata: dict, of_job: bool) -> None:
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        status = self.says.get(metadata["namespace"], SUCCEEDED if of_job else READY)
        merge = {"Content-Type": "application/merge-patch+json"}
        self._client.patch(path, json={"status": status}, headers=merge)
