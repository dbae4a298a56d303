"""What becomes of an apply: Jobs and rollouts to their end, why a pod does not serve, scaling over time."""

import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import httpx

from specbook.deploy.kubectl import Kubectl, KubectlError, explain
from specbook.deploy.manifests import Manifest, find, quantity
from specbook.errors import ClusterError, ConfigError

POLL_S = 2.0
HOPELESS = {
    "ImagePullBackOff": "build and push the image, or hand it to the cluster (`kind load docker-image`); the "
    "kubelet tries again by itself",
    "InvalidImageName": "correct `images` in the kustomization",
    "ErrImageNeverPull": "the node does not hold the image: `kind load docker-image`, or another pull policy",
    "CreateContainerConfigError": "create the Secret or ConfigMap it names (deploy/base/secret.example.yaml)",
    "CreateContainerError": "change the container as the message says",
    "CrashLoopBackOff": "read its log: kubectl logs --previous",
}
"""Reasons that waiting does not heal, and their fix."""
REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Trouble:
    """What keeps a pod from serving, as Kubernetes names it."""

    pod: str
    reason: str
    message: str

    @property
    def hopeless(self) -> bool:
        """Waiting will not heal it."""
        return self.reason in HOPELESS

    def __str__(self) -> str:
        fix = f". To fix: {HOPELESS[self.reason]}" if self.hopeless else ""
        return f"{self.pod}: {self.reason}: {self.message}{fix}"


@dataclass(frozen=True)
class Look:
    """One look at a Deployment or a Job."""

    state: str
    pods: list[Trouble]
    done: bool = False
    failed: str = ""
    """Why it will never be done; empty while it may."""


def rollout(cluster: Kubectl, deployment: Manifest) -> Look:
    """Where a rollout stands, as `kubectl rollout status` says it, with its newest pods' troubles."""
    metadata, selector = deployment["metadata"], deployment["spec"]["selector"]["matchLabels"]
    inside = f"--namespace={metadata['namespace']}"
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    failed = ""
    try:
        state = cluster.run("rollout", "status", f"deployment/{metadata['name']}", inside, "--watch=false")
    except KubectlError as error:
        if "progress deadline" not in error.stderr:
            raise
        state = failed = "the rollout is past its progress deadline"
    replica_set, pods = newest(cluster.get("replicasets,pods", inside, f"--selector={labels}")["items"])
    failed = refused(replica_set) or failed
    return Look(state.strip(), [*troubles(pods)], "successfully rolled out" in state, failed)


def job(cluster: Kubectl, manifest: Manifest) -> Look:
    """Where a Job stands, with its pods' troubles."""
    name, inside = manifest["metadata"]["name"], f"--namespace={manifest['metadata']['namespace']}"
    held = _conditions(cluster.get("job", name, inside))
    pods = cluster.get("pods", inside, f"--selector=job-name={name}")["items"]
    failed = f"{held['Failed']}. Read its log: kubectl {inside} logs job/{name}" if "Failed" in held else ""
    state = "complete" if "Complete" in held else "not complete"
    return Look(f"Job {name}: {state}", [*troubles(pods)], "Complete" in held, failed)


def until_done(look: Callable[[], Look], timeout_s: float, report: Report) -> None:
    """Look until it is done; what changes is reported once.

    Raises:
        ClusterError: if it fails, cannot end, or is late; names the pod and the fix. It goes on all the same.
    """
    deadline, printed = time.monotonic() + timeout_s, set[str]()
    while True:
        now = look()
        for line in [now.state, *map(str, now.pods)]:
            if line not in printed:
                printed.add(line)
                report(line)
        if now.done:
            return
        hopeless = [str(pod) for pod in now.pods if pod.hopeless]
        late = f"not done after {timeout_s:.3g} s" if time.monotonic() > deadline else ""
        if why := now.failed or late or (hopeless and "it cannot end"):
            pods = hopeless or list(map(str, now.pods)) or ["no pod says why: it may still be loading"]
            raise ClusterError(f"{now.state} {why}: {'; '.join(pods)}")
        time.sleep(POLL_S)


def for_rollouts(cluster: Kubectl, manifests: list[Manifest], timeout_s: float, report: Report) -> None:
    """Follow the rollout of every Deployment among the manifests, one after the other.

    Raises:
        ClusterError: at the first that cannot end, or when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    for deployment in find(manifests, "Deployment"):
        left_s = max(1.0, deadline - time.monotonic())
        until_done(lambda deployment=deployment: rollout(cluster, deployment), left_s, report)


def _conditions(manifest: Manifest) -> dict[str, str]:
    """Conditions that hold: type to message, or to the type where there is none."""
    conditions = manifest.get("status", {}).get("conditions") or []
    return {c["type"]: c.get("message") or c["type"] for c in conditions if c["status"] == "True"}


def troubles(pods: list[Manifest]) -> Iterator[Trouble]:
    """What keeps each pod from serving; pods that merely load have no trouble."""
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        for condition in status.get("conditions") or []:
            if condition.get("reason") == "Unschedulable":
                # A node may be on its way, so this is said, and waited out.
                yield Trouble(name, "Unschedulable", condition.get("message", ""))
        containers = [status.get(kind) or [] for kind in ("initContainerStatuses", "containerStatuses")]
        for container in chain(*containers):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if (reason := waiting.get("reason")) in HOPELESS:
                yield Trouble(name, reason, _last_words(container) or waiting.get("message", ""))


def _last_words(container: Manifest) -> str:
    ended = (container.get("lastState") or {}).get("terminated")
    if not ended:
        return ""
    lines = (ended.get("message") or "").strip().splitlines()
    why = f"{container['name']} ended with {ended.get('reason', 'Error')}, exit {ended.get('exitCode')}"
    return f"{why}: {lines[-1]}" if lines else why


def newest(objects: list[Manifest]) -> tuple[Manifest, list[Manifest]]:
    """The newest ReplicaSet ({} for none) and its pods, among all that a Deployment's labels pick."""

    def revision(replica_set: Manifest) -> int:
        return int(replica_set["metadata"].get("annotations", {}).get(REVISION, 0))

    last = max(find(objects, "ReplicaSet"), key=revision, default={})
    digest = last.get("metadata", {}).get("labels", {}).get(HASH)
    pods = find(objects, "Pod")
    return last, [pod for pod in pods if digest and pod["metadata"]["labels"].get(HASH) == digest]


def refused(replica_set: Manifest) -> str:
    """Why pods cannot even be created: a quota, an admission rule; empty when they can."""
    if not (message := _conditions(replica_set).get("ReplicaFailure")):
        return ""
    fix = "raise the quota, or ask for less" if "exceeded quota" in message else "do as the message says"
    return f"Pods cannot be created: {message}. To fix: {fix}"


@dataclass(frozen=True)
class Sample:
    """One look at the service."""

    at_s: float
    """Since the first look."""
    wanted: int
    """Pods that the Deployment asks for."""
    total: int
    """Pods that exist."""
    available: int
    """Pods that serve."""
    desired: int | None
    """What the autoscaler asks for; None without one."""
    metrics: dict[str, float | None]
    """Its metrics as it reads them; None where it reads none."""

    def row(self) -> dict[str, object]:
        """One flat row, for CSV and JSON."""
        flat = asdict(self)
        metrics = flat.pop("metrics")
        return flat | metrics

    def __str__(self) -> str:
        values = {name: "unknown" if v is None else f"{v:.0f}" for name, v in self.metrics.items()}
        desired = "" if self.desired is None else f" (autoscaler: {self.desired})"
        bar = "#" * self.available + "." * max(0, self.total - self.available)
        pods = f"wanted {self.wanted}{desired}  serving {self.available}  {bar:8}"
        return f"{self.at_s:6.0f} s  {pods}  {'  '.join(map(' '.join, values.items()))}".rstrip()


def timeline(
    client: httpx.Client, namespace: str, name: str, duration_s: float, every_s: float
) -> Iterator[Sample]:
    """Look now, and again every `every_s` until the time is over; `client` is of `Kubectl.proxy`.

    Raises:
        ClusterError: if there is no such Deployment, the server refuses, or does not answer.
    """
    start = time.monotonic()
    yield _sample(client, namespace, name, 0.0)
    while time.monotonic() - start + every_s <= duration_s:
        time.sleep(every_s)
        yield _sample(client, namespace, name, time.monotonic() - start)


def _sample(client: httpx.Client, namespace: str, name: str, at_s: float) -> Sample:
    deployment = _read(client, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    if deployment is None:
        raise ClusterError(f"no Deployment {namespace}/{name}. To fix: apply the overlay first")
    path = f"namespaces/{namespace}/horizontalpodautoscalers/{name}"
    versions = (_read(client, f"/apis/autoscaling/{version}/{path}") for version in ("v2", "v2beta2"))
    scaler = next(filter(None, versions), None)
    status, wanted = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
    total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
    desired = scaler.get("status", {}).get("desiredReplicas") if scaler else None
    return Sample(at_s, wanted, total, available, desired, autoscaler_metrics(scaler) if scaler else {})


def _read(client: httpx.Client, path: str) -> Manifest | None:
    """One object of the API; None when there is none."""
    try:
        answer = client.get(path)
        if answer.status_code == 404:
            return None
        body = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ClusterError(f"cannot read {path}: no answer of the API server") from error
    if answer.is_error:
        raise ClusterError(explain(body.get("message", answer.reason_phrase), list))
    return body


def autoscaler_metrics(scaler: Manifest) -> dict[str, float | None]:
    """External metrics of an autoscaler: name to current value, None for what it cannot read."""
    current = {
        metric["external"]["metric"]["name"]: metric["external"]["current"].get("value")
        for metric in scaler.get("status", {}).get("currentMetrics") or []
        if metric.get("type") == "External"
    }
    names = [m["external"]["metric"]["name"] for m in scaler["spec"].get("metrics", []) if "external" in m]
    return {name: quantity(current[name]) if current.get(name) else None for name in names}


def write_timeline(path: Path, rows: list[dict[str, object]]) -> None:
    """The timeline so far as CSV, whole after every sample: an interrupted watch keeps what it saw.

    Raises:
        ConfigError: if the file cannot be written.
    """
    try:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
