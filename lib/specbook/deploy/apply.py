"""Objects -> cluster by kubectl: each is tried without effect first, then applied, in the right order."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import yaml

from specbook.deploy.kubectl import NO_KIND, Kubectl, KubectlError
from specbook.deploy.manifests import Manifest, printable, title
from specbook.deploy.rollout import Report, job, until_done
from specbook.errors import ClusterError

MANAGER = "--field-manager=specbook"
ORDER = (
    "Namespace", "ResourceClaimTemplate", "ServiceAccount", "Role", "ClusterRole", "RoleBinding",
    "ClusterRoleBinding", "ConfigMap", "Secret", "PersistentVolumeClaim", "NetworkPolicy", "Service",
    "PodDisruptionBudget", "Job", "Deployment", "LeaderWorkerSet",
)  # fmt: skip
"""What others lean on comes first; kinds not named here (autoscalers, monitors, routes) come last."""
KEPT = ("Namespace", "PersistentVolumeClaim")
"""Deleted only when asked for: a model cache takes hours to fill."""
Action = Literal["create", "change", "replace", "unchanged"]
CHANGING: tuple[Action, ...] = ("create", "change", "replace")


@dataclass(frozen=True)
class Step:
    """What applying one object would do."""

    manifest: Manifest
    action: Action
    diff: str
    """Unified, secrets hidden; empty when nothing changes."""


def ordered(manifests: list[Manifest]) -> list[Manifest]:
    """The order in which objects are applied; deleting goes backwards."""
    rank = {kind: place for place, kind in enumerate(ORDER)}
    return sorted(manifests, key=lambda manifest: rank.get(manifest["kind"], len(ORDER)))


def options(force: bool) -> list[str]:
    """What `kubectl apply` and `kubectl diff` are given."""
    return [MANAGER, *(["--force-conflicts"] if force else [])]


def plan(cluster: Kubectl, manifests: list[Manifest], force: bool) -> list[Step]:
    """Try every object on the server without effect; ClusterError, naming each, if it refuses any."""
    created = {m["metadata"]["name"] for m in manifests if m["kind"] == "Namespace"}
    steps, refused = [], []
    for manifest in ordered(manifests):
        try:
            steps.append(_step(cluster, manifest, created, force))
        except KubectlError as error:
            refused.append(f"{title(manifest)}: {error}")
    if refused:
        raise ClusterError(f"nothing was changed. {together(refused)}")
    return steps


def together(messages: list[str]) -> str:
    """Messages as one, each fix named once."""
    parts = [message.partition(". To fix: ") for message in messages]
    fixes = "; ".join(dict.fromkeys(fix for _, _, fix in parts if fix))
    return "; ".join(what for what, _, _ in parts) + (f". To fix: {fixes}" if fixes else "")


def _step(cluster: Kubectl, manifest: Manifest, created: set[str], force: bool) -> Step:
    try:
        before, after = sides(cluster.diff(manifest, *options(force)))
    except KubectlError as error:
        if manifest["metadata"].get("namespace") in created and "namespaces" in error.stderr:
            if "(NotFound)" in error.stderr:  # its namespace comes with it: the server cannot try it yet
                return Step(manifest, "create", difference(None, manifest))
        elif manifest["kind"] == "Job" and "immutable" in error.stderr:
            return Step(manifest, "replace", difference(None, manifest))
        raise
    diff = difference(before, after) if after else ""
    if not diff and manifest["kind"] == "Job" and job(cluster, manifest).failed:
        return Step(manifest, "replace", "")  # a second apply would not start it again
    return Step(manifest, "create" if after and not before else "change" if diff else "unchanged", diff)


def sides(diff: str) -> tuple[Manifest | None, Manifest | None]:
    """One object before and after, of a unified diff that holds all its lines."""
    lines = diff.partition("\n@@ ")[2].splitlines()[1:]
    before, after = ("\n".join(line[1:] for line in lines if line[:1] in (" ", sign)) for sign in "-+")
    return yaml.safe_load(before), yaml.safe_load(after)


def difference(live: Manifest | None, wanted: Manifest) -> str:
    """What would change, as a unified diff without secrets and without what only the server writes."""
    before = yaml.safe_dump(printable(live)).splitlines() if live else []
    after = yaml.safe_dump(printable(wanted)).splitlines()
    lines = difflib.unified_diff(before, after, "on the cluster", title(wanted), lineterm="", n=2)
    return "\n".join(lines)


def summary(steps: list[Step]) -> str:
    """How many objects a plan would create, change and replace."""
    counts = {action: sum(step.action == action for step in steps) for action in CHANGING}
    return ", ".join(f"{n} to {action}" for action, n in counts.items() if n) or "nothing to change"


def apply(
    cluster: Kubectl, steps: list[Step], report: Report, force: bool, jobs_timeout_s: float | None
) -> None:
    """Carry a plan out, one object after the other; what is unchanged is left alone.

    Args:
        jobs_timeout_s: how long a Job may take, which is waited for before the next object is applied: pods
            that start before their weights are there would only run into their deadline. None: no wait.

    Raises:
        ClusterError: at the first object refused; says how far it came. Applying again goes on from there.
    """
    todo, done = sum(step.action != "unchanged" for step in steps), 0
    try:
        for step in steps:
            if step.action == "replace":
                remove(cluster, step.manifest)
            if step.action != "unchanged":
                cluster.apply([step.manifest], *options(force))
                done += 1
                report(f"{step.action:9} {title(step.manifest)}")
            manifest = step.manifest
            runs = manifest["kind"] == "Job" and not manifest["spec"].get("suspend")
            if runs and jobs_timeout_s is not None:  # one that is there may not have ended
                until_done(lambda manifest=manifest: job(cluster, manifest), jobs_timeout_s, report)
    except (ClusterError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted"
        raise ClusterError(
            f"{why}. {done} of {todo} objects are applied. To fix: apply again, which goes on from there"
        ) from error


def remove(cluster: Kubectl, manifest: Manifest, wait: bool = True) -> bool:
    """Delete one object with what it owns; whether it was there, which an unknown kind was not."""
    how = ("--ignore-not-found", "--cascade=foreground", f"--wait={str(wait).lower()}", "-f", "-")
    try:
        return bool(cluster.run("delete", *how, stdin=json.dumps(manifest)))
    except KubectlError as error:
        if NO_KIND.search(error.stderr):
            return False
        raise


def deletable(manifests: list[Manifest], everything: bool) -> Iterator[Manifest]:
    """What a delete takes, last applied first: the namespace and the volumes only when asked for."""
    return (m for m in reversed(ordered(manifests)) if everything or m["kind"] not in KEPT)


def delete(cluster: Kubectl, manifests: list[Manifest], report: Report, everything: bool) -> None:
    """Delete objects, of which some may be gone already; ClusterError if the server refuses one."""
    for manifest in deletable(manifests, everything):
        there = remove(cluster, manifest, wait=False)
        report(f"{'deleted' if there else 'was gone':9} {title(manifest)}")
