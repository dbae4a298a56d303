"""Why a pod does not serve: the reason Kubernetes gives, and the fix."""

from collections.abc import Iterator
from dataclasses import dataclass

from specbook.deploy.render import Manifest

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


@dataclass(frozen=True)
class Trouble:
    """What keeps a pod from serving."""

    pod: str
    reason: str
    message: str
    hopeless: bool
    """Waiting will not heal it."""

    def __str__(self) -> str:
        fix = f". To fix: {HOPELESS[self.reason]}" if self.reason in HOPELESS else ""
        return f"{self.pod}: {self.reason}: {self.message}{fix}"


def troubles(pods: list[Manifest]) -> list[Trouble]:
    """One line a pod that is in trouble; pods that merely load are not."""
    return [trouble for pod in pods for trouble in _of(pod)]


def _of(pod: Manifest) -> Iterator[Trouble]:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "Unschedulable":
            # A node may be on its way, so this is said, and waited out.
            yield Trouble(name, "Unschedulable", condition.get("message", ""), hopeless=False)
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason in HOPELESS:
            yield Trouble(name, reason, _last_words(container) or waiting.get("message", ""), hopeless=True)


def _last_words(container: Manifest) -> str:
    ended = (container.get("lastState") or {}).get("terminated")
    if not ended:
        return ""
    said = (ended.get("message") or "").strip().splitlines()
    why = f"{container['name']} ended with {ended.get('reason', 'Error')}, exit {ended.get('exitCode')}"
    return f"{why}: {said[-1]}" if said else why


def newest(objects: list[Manifest]) -> tuple[Manifest, list[Manifest]]:
    """The newest ReplicaSet ({} for none) and its pods, among all that a Deployment's labels pick."""

    def revision(replica_set: Manifest) -> int:
        return int(replica_set["metadata"].get("annotations", {}).get(REVISION, 0))

    last = max((each for each in objects if each["kind"] == "ReplicaSet"), key=revision, default={})
    digest = last.get("metadata", {}).get("labels", {}).get(HASH)
    pods = (each for each in objects if each["kind"] == "Pod")
    return last, [pod for pod in pods if digest and pod["metadata"]["labels"].get(HASH) == digest]


def refused(replica_set: Manifest) -> str:
    """Why pods cannot even be created: a quota, an admission rule; empty when they can."""
    for condition in replica_set.get("status", {}).get("conditions") or []:
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            said = condition.get("message", "")
            fix = "raise the quota, or ask for less" if "exceeded quota" in said else "do as the message says"
            return f"Pods cannot be created: {said}. To fix: {fix}"
    return ""
