"""After an apply: first the weights, then every Deployment, within one time."""

import time
from collections.abc import Callable

from specbook.deploy.cluster import Cluster
from specbook.deploy.objects import find
from specbook.deploy.render import Manifest
from specbook.deploy.wait import Report, wait, wait_for_job


def weights(cluster: Cluster, timeout_s: float, report: Report) -> Callable[[Manifest], None]:
    """For `apply(after=...)`: waits for each Job that was applied.

    Pods that start before their weights are there would only run into their deadline.
    """

    def after(manifest: Manifest) -> None:
        if manifest["kind"] == "Job" and not manifest["spec"].get("suspend"):
            wait_for_job(cluster, manifest, timeout_s, report)

    return after


def deployments(cluster: Cluster, manifests: list[Manifest], timeout_s: float, report: Report) -> None:
    """Follow the rollout of every Deployment among the manifests, one after the other.

    Raises:
        ClusterError: at the first that cannot end, or when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    for manifest in find(manifests, "Deployment"):
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        left_s = max(1.0, deadline - time.monotonic())
        wait(cluster, namespace, name, left_s, lambda line, name=name: report(f"{name}: {line}"))
