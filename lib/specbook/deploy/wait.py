"""Wait for a rollout: progress while it goes, the reason when it does not; and go back a revision."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from specbook.deploy.apply import MANAGER
from specbook.deploy.cluster import Cluster, explained
from specbook.deploy.diagnose import Trouble, refused, troubles
from specbook.deploy.render import Manifest
from specbook.errors import ClusterError

POLL_S = 2.0
REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Rollout:
    """Where a Deployment stands."""

    wanted: int
    updated: int
    available: int
    total: int
    observed: bool
    """Whether the controller has seen the newest generation."""
    stuck: bool
    """Past its progress deadline."""

    @property
    def done(self) -> bool:
        """All pods are new and serve, and no old one is left."""
        return self.observed and self.updated == self.wanted == self.available == self.total

    def __str__(self) -> str:
        old = f", {self.total - self.updated} old to go" if self.total > self.updated else ""
        return f"{self.updated} of {self.wanted} pods are new, {self.available} serve{old}"


def rollout(deployment: Manifest) -> Rollout:
    """A Deployment's status, read."""
    status = deployment.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    return Rollout(
        wanted=deployment["spec"].get("replicas", 1),
        updated=status.get("updatedReplicas") or 0,
        available=status.get("availableReplicas") or 0,
        total=status.get("replicas") or 0,
        observed=(status.get("observedGeneration") or 0) >= deployment["metadata"].get("generation", 0),
        stuck=conditions.get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded",
    )


def wait(
    cluster: Cluster, namespace: str, name: str, timeout_s: float, report: Report, poll_s: float = POLL_S
) -> Rollout:
    """Follow a rollout to its end; progress is reported when it changes.

    Raises:
        ClusterError: if it is stuck, hopeless or late; names pod and mend. The rollout itself goes on.
    """
    deadline, said = time.monotonic() + timeout_s, set[str]()
    while True:
        deployment = read(cluster, namespace, name)
        now = rollout(deployment)
        found = troubles(_new_pods(cluster, deployment))
        for line in [str(now), *map(str, found)]:
            if line not in said:
                said.add(line)
                report(line)
        if now.done:
            return now
        _give_up(now, found, refused(deployment), late=time.monotonic() > deadline, timeout_s=timeout_s)
        time.sleep(poll_s)


def _give_up(now: Rollout, found: list[Trouble], why_none: str | None, late: bool, timeout_s: float) -> None:
    if why_none:
        raise ClusterError(why_none)
    hopeless = [trouble for trouble in found if trouble.hopeless]
    if hopeless or now.stuck or late:
        state = "past its progress deadline" if now.stuck else f"not done after {timeout_s:g} s"
        reasons = "; ".join(map(str, hopeless or found)) or "no pod says why: they may still be loading"
        raise ClusterError(f"the rollout {'cannot end' if hopeless else 'is ' + state} ({now}): {reasons}")


def wait_for_job(
    cluster: Cluster, job: Manifest, timeout_s: float, report: Report, poll_s: float = POLL_S
) -> None:
    """Follow a Job until it is complete.

    Raises:
        ClusterError: if it fails, cannot run, or is late.
    """
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    deadline, said = time.monotonic() + timeout_s, set[str]()
    while True:
        found = cluster.get("batch/v1", "Job", namespace, name) or {}
        conditions = {c["type"]: c for c in found.get("status", {}).get("conditions") or []}
        if conditions.get("Complete", {}).get("status") == "True":
            report(f"{name}: complete")
            return
        pods = troubles(cluster.list("v1", "Pod", namespace, {"batch.kubernetes.io/job-name": name}))
        for line in map(str, pods):
            if line not in said:
                said.add(line)
                report(line)
        failed = conditions.get("Failed", {})
        if failed.get("status") == "True" or time.monotonic() > deadline:
            why = failed.get("message") or f"not complete after {timeout_s:g} s"
            raise ClusterError(f"the Job {name}: {why}. Read its log: kubectl -n {namespace} logs job/{name}")
        time.sleep(poll_s)


def read(cluster: Cluster, namespace: str, name: str) -> Manifest:
    """The Deployment.

    Raises:
        ClusterError: if there is none.
    """
    found = cluster.get("apps/v1", "Deployment", namespace, name)
    if found is None:
        raise ClusterError(f"no Deployment {namespace}/{name} on {cluster.context!r}: apply an overlay first")
    return found


def _replica_sets(cluster: Cluster, deployment: Manifest) -> list[Manifest]:
    """Those of a Deployment, newest revision first."""
    metadata = deployment["metadata"]
    labels = deployment["spec"]["selector"]["matchLabels"]
    found = cluster.list("apps/v1", "ReplicaSet", metadata["namespace"], labels)
    own = [
        replica_set
        for replica_set in found
        if any(
            o.get("uid") == metadata.get("uid") for o in replica_set["metadata"].get("ownerReferences", [])
        )
    ]
    return sorted(own, key=revision, reverse=True)


def revision(replica_set: Manifest) -> int:
    """Its number among a Deployment's templates."""
    return int(replica_set["metadata"].get("annotations", {}).get(REVISION, 0))


def _new_pods(cluster: Cluster, deployment: Manifest) -> list[Manifest]:
    sets = _replica_sets(cluster, deployment)
    if not sets:
        return []
    labels = deployment["spec"]["selector"]["matchLabels"] | {HASH: sets[0]["metadata"]["labels"][HASH]}
    return cluster.list("v1", "Pod", deployment["metadata"]["namespace"], labels)


def earlier(cluster: Cluster, namespace: str, name: str, to: int | None = None) -> Manifest:
    """The ReplicaSet to go back to: the one before the newest, or the one of revision `to`.

    Raises:
        ClusterError: if there is none.
    """
    sets = _replica_sets(cluster, read(cluster, namespace, name))
    chosen = [s for s in sets[1:] if to is None or revision(s) == to]
    if not chosen:
        kept = ", ".join(str(revision(s)) for s in sets[1:]) or "none"
        wanted = f"revision {to}" if to is not None else "an earlier revision"
        raise ClusterError(f"{namespace}/{name} has not kept {wanted} (kept: {kept})")
    return chosen[0]


def roll_back(cluster: Cluster, namespace: str, name: str, chosen: Manifest) -> None:
    """Give the Deployment the pod template of an earlier ReplicaSet; replicas stay as they are.

    Raises:
        ClusterError: if the server refuses; it is asked without effect first.
    """
    template = {**chosen["spec"]["template"]}
    metadata = {**template.get("metadata", {})}
    metadata["labels"] = {key: value for key, value in metadata["labels"].items() if key != HASH}
    patch = [{"op": "replace", "path": "/spec/template", "value": {**template, "metadata": metadata}}]
    resource = cluster.resource("apps/v1", "Deployment")
    with explained(f"roll {namespace}/{name} back"):
        for dry_run in ("All", None):
            resource.patch(
                body=patch, name=name, namespace=namespace, content_type="application/json-patch+json",
                field_manager=MANAGER, dry_run=dry_run,
            )  # fmt: skip
