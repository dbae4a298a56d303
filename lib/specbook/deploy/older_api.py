"""Manifests for an API server that is older than they are: what has another name there, in one place."""

import copy
from collections.abc import Iterator

from specbook.deploy.manifests import Manifest, pod_templates

RENAMED = {
    ("autoscaling/v2", "HorizontalPodAutoscaler"): (23, "autoscaling/v2beta2"),
    ("policy/v1", "PodDisruptionBudget"): (21, "policy/v1beta1"),
}
"""API version and kind -> the minor release of Kubernetes 1 that brought it, and its name before."""
FIELDS = {
    ("PodDisruptionBudget", "unhealthyPodEvictionPolicy"): 27,
    ("Job", "podFailurePolicy"): 26,
    ("Job", "backoffLimitPerIndex"): 29,
    ("Job", "maxFailedIndexes"): 29,
}
"""Kind and field of its spec -> the minor release that has it on by default (KEP-3017, -3329, -3850)."""
SLEEP_SINCE = 30
"""The `sleep` action of preStop (KEP-3960, on by default)."""
INDEXED_JOBS_SINCE = 22
"""`completionMode: Indexed` (KEP-2214, on by default)."""


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
        kind, version = manifest["kind"], manifest["apiVersion"]
        if (older := served(version, kind, minor)) != version:
            yield f"{kind}: {version} is {older}"
            manifest["apiVersion"] = older
        for (of_kind, field), since in FIELDS.items():
            if of_kind == kind and minor < since and manifest["spec"].pop(field, None) is not None:
                yield f"{kind}: {field} is left out"
    for pod in pod_templates(manifests) if minor < SLEEP_SINCE else ():
        for container in pod.spec["containers"]:
            hook = container.get("lifecycle", {}).get("preStop", {})
            if "sleep" in hook:
                seconds = hook.pop("sleep")["seconds"]
                hook["exec"] = {"command": ["sleep", str(seconds)]}
                yield "preStop: sleep is exec sleep"
