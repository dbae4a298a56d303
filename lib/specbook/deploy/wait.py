"""Wait for Jobs that fetch weights, then for rollouts; when one cannot end, say which pod and why."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from specbook.deploy.diagnose import Trouble, newest, refused, troubles
from specbook.deploy.kubectl import Kubectl, KubectlError
from specbook.deploy.objects import find
from specbook.deploy.render import Manifest
from specbook.errors import ClusterError

POLL_S = 2.0
Report = Callable[[str], None]


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
    metadata = deployment["metadata"]
    inside = f"--namespace={metadata['namespace']}"
    labels = ",".join(
        f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items()
    )
    failed = ""
    try:
        state = cluster.run("rollout", "status", f"deployment/{metadata['name']}", inside, "--watch=false")
    except KubectlError as error:
        if "progress deadline" not in error.said:
            raise
        state = failed = "the rollout is past its progress deadline"
    replica_set, pods = newest(cluster.get("replicasets,pods", inside, f"--selector={labels}")["items"])
    failed = refused(replica_set) or failed
    return Look(state.strip(), troubles(pods), "successfully rolled out" in state, failed)


def job(cluster: Kubectl, manifest: Manifest) -> Look:
    """Where a Job stands, with its pods' troubles."""
    name, inside = manifest["metadata"]["name"], f"--namespace={manifest['metadata']['namespace']}"
    conditions = cluster.get("job", name, inside).get("status", {}).get("conditions") or []
    held = {c["type"]: c.get("message") or c["type"] for c in conditions if c["status"] == "True"}
    pods = cluster.get("pods", inside, f"--selector=job-name={name}")["items"]
    failed = f"{held['Failed']}. Read its log: kubectl {inside} logs job/{name}" if "Failed" in held else ""
    state = "complete" if "Complete" in held else "not complete"
    return Look(f"Job {name}: {state}", troubles(pods), "Complete" in held, failed)


def until_done(look: Callable[[], Look], timeout_s: float, report: Report) -> None:
    """Look until it is done; what changes is reported once.

    Raises:
        ClusterError: if it fails, cannot end, or is late; names the pod and the fix. It goes on all the same.
    """
    deadline, said = time.monotonic() + timeout_s, set[str]()
    while True:
        now = look()
        for line in [now.state, *map(str, now.pods)]:
            if line not in said:
                said.add(line)
                report(line)
        if now.done:
            return
        hopeless = [str(pod) for pod in now.pods if pod.hopeless]
        late = f"not done after {timeout_s:g} s" if time.monotonic() > deadline else ""
        if why := now.failed or late or (hopeless and "it cannot end"):
            pods = hopeless or list(map(str, now.pods)) or ["no pod says why: it may still be loading"]
            raise ClusterError(f"{now.state} {why}: {'; '.join(pods)}")
        time.sleep(POLL_S)


def for_jobs(cluster: Kubectl, timeout_s: float, report: Report) -> Callable[[Manifest], None]:
    """For `apply(after=...)`: waits for each Job that was applied.

    Pods that start before their weights are there would only run into their deadline.
    """

    def after(manifest: Manifest) -> None:
        if manifest["kind"] == "Job" and not manifest["spec"].get("suspend"):
            until_done(lambda: job(cluster, manifest), timeout_s, report)

    return after


def for_rollouts(cluster: Kubectl, manifests: list[Manifest], timeout_s: float, report: Report) -> None:
    """Follow the rollout of every Deployment among the manifests, one after the other.

    Raises:
        ClusterError: at the first that cannot end, or when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    for deployment in find(manifests, "Deployment"):
        left_s = max(1.0, deadline - time.monotonic())
        until_done(lambda deployment=deployment: rollout(cluster, deployment), left_s, report)
