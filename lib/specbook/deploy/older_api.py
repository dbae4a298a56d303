"""Manifests for an API server that is older than they are: what has another name there, in one place."""

import copy
from collections.abc import Iterator

from specbook.deploy.objects import pod_templates
from specbook.deploy.render import Manifest

RENAMED = {
    ("autoscaling/v2", "HorizontalPodAutoscaler"): (23, "autoscaling/v2beta2"),
    ("policy/v1", "PodDisruptionBudget"): (21, "policy/v1beta1"),
}
"""API version and kind -> the minor release of Kubernetes 1 that brought it, and its name before."""
SLEEP_SINCE = 30
"""The `sleep` action of preStop (KEP-3960, on by default)."""
EVICTION_POLICY_SINCE = 27
"""`unhealthyPodEvictionPolicy` (KEP-3017, on by default)."""
INDEXED_JOBS_SINCE = 22
"""`completionMode: Indexed` (KEP-2214, on by default)."""
JOB_POLICIES = {"podFailurePolicy": 26, "backoffLimitPerIndex": 29, "maxFailedIndexes": 29}
"""Field of a Job's spec -> the minor release that has it on by default (KEP-3329, KEP-3850)."""


def served(api_version: str, kind: str, minor: int) -> str:
    """The API version under which a server of Kubernetes 1.`minor` has a kind."""
    since, before = RENAMED.get((api_version, kind), (0, api_version))
    return api_version if minor >= since else before


def translated(manifests: list[Manifest], minor: int) -> tuple[list[Manifest], list[str]]:
    """The same objects in the words of Kubernetes 1.`minor`, and one line for each word that was changed."""
    changed, notes = [], []
    for manifest in copy.deepcopy(manifests):
        changed += (some := _jobs(manifest, minor))
        notes += [f"Job {manifest['metadata']['name']}: one Job for each index"] * (len(some) > 1)
    return changed, list(dict.fromkeys([*notes, *_translate(changed, minor)]))


def _jobs(manifest: Manifest, minor: int) -> list[Manifest]:
    """An indexed Job as one Job for each index, where the server has none; anything else as it is."""
    spec = manifest.get("spec", {})
    if manifest["kind"] != "Job" or spec.get("completionMode") != "Indexed" or minor >= INDEXED_JOBS_SINCE:
        return [manifest]
    jobs = []
    for index in range(spec["completions"]):
        job = copy.deepcopy(manifest)
        for name in ("completionMode", "completions", "parallelism"):
            job["spec"].pop(name, None)
        job["metadata"]["name"] += f"-{index}"
        for container in job["spec"]["template"]["spec"]["containers"]:
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        jobs.append(job)
    return jobs


def _translate(manifests: list[Manifest], minor: int) -> Iterator[str]:
    for manifest in manifests:
        older = served(manifest["apiVersion"], manifest["kind"], minor)
        if older != manifest["apiVersion"]:
            yield f"{manifest['kind']}: {manifest['apiVersion']} is {older}"
            manifest["apiVersion"] = older
        if minor < EVICTION_POLICY_SINCE and manifest["spec" if "spec" in manifest else "metadata"].pop(
            "unhealthyPodEvictionPolicy", None
        ):
            yield "PodDisruptionBudget: unhealthyPodEvictionPolicy is left out"
        for field, since in JOB_POLICIES.items() if manifest["kind"] == "Job" else ():
            if minor < since and manifest["spec"].pop(field, None) is not None:
                yield f"Job: {field} is left out"
    if minor >= SLEEP_SINCE:
        return
    for pod in pod_templates(manifests):
        for container in pod.spec["containers"]:
            hook = container.get("lifecycle", {}).get("preStop", {})
            if "sleep" in hook:
                seconds = hook.pop("sleep")["seconds"]
                hook["exec"] = {"command": ["sleep", str(seconds)]}
                yield "preStop: sleep is exec sleep"
