"""Objects -> cluster: each is tried without effect first, then applied by the server, in the right order."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import yaml
from kubernetes.client.exceptions import ApiException

from specbook.deploy.cluster import Cluster, explain, explained, message, missing_kind
from specbook.deploy.redact import shown
from specbook.deploy.render import Manifest, title
from specbook.errors import ClusterError

MANAGER = "specbook"
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
Report = Callable[[str], None]
After = Callable[[Manifest], None]


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


def plan(cluster: Cluster, manifests: list[Manifest], force: bool = False) -> list[Step]:
    """Try every object on the server without effect.

    Raises:
        ClusterError: if the cluster lacks a kind or refuses an object; nothing has been changed then.
    """
    check_kinds(cluster, manifests)
    created = {m["metadata"]["name"] for m in manifests if m["kind"] == "Namespace"}
    return [_step(cluster, manifest, created, force) for manifest in ordered(manifests)]


def check_kinds(cluster: Cluster, manifests: list[Manifest]) -> None:
    """Every kind is known to the cluster.

    Raises:
        ClusterError: names all that are missing, one line each.
    """
    missing = []
    for api_version, kind in sorted({(m["apiVersion"], m["kind"]) for m in manifests}):
        try:
            cluster.resource(api_version, kind)
        except ClusterError:
            missing.append(missing_kind(api_version, kind, cluster.context))
    if missing:
        raise ClusterError("nothing was changed: " + "; ".join(missing))


def _live(cluster: Cluster, manifest: Manifest) -> Manifest | None:
    metadata = manifest["metadata"]
    return cluster.get(manifest["apiVersion"], manifest["kind"], metadata.get("namespace"), metadata["name"])


def _step(cluster: Cluster, manifest: Manifest, created: set[str], force: bool) -> Step:
    live = _live(cluster, manifest)
    try:
        wanted = _send(cluster, manifest, force, dry_run=True)
    except ApiException as error:
        if error.status == 404 and live is None and manifest["metadata"].get("namespace") in created:
            wanted = manifest  # its namespace comes with it, so the server cannot try it yet
        elif error.status == 422 and manifest["kind"] == "Job" and "immutable" in message(error):
            return Step(manifest, "replace", difference(live, manifest))
        else:
            raise ClusterError(f"nothing was changed: {title(manifest)}: {explain(error)}") from error
    diff = difference(live, wanted)
    return Step(manifest, "create" if live is None else "change" if diff else "unchanged", diff)


def _send(cluster: Cluster, manifest: Manifest, force: bool, dry_run: bool = False) -> Manifest:
    resource = cluster.resource(manifest["apiVersion"], manifest["kind"])
    applied = resource.server_side_apply(
        body=manifest, name=manifest["metadata"]["name"], namespace=manifest["metadata"].get("namespace"),
        field_manager=MANAGER, force_conflicts=force or None, dry_run="All" if dry_run else None,
    )  # fmt: skip
    return applied.to_dict()


def difference(live: Manifest | None, wanted: Manifest) -> str:
    """What would change, as a unified diff without secrets and without what only the server writes."""
    before = yaml.safe_dump(shown(live)).splitlines() if live else []
    after = yaml.safe_dump(shown(wanted)).splitlines()
    lines = difflib.unified_diff(before, after, "on the cluster", title(wanted), lineterm="", n=2)
    return "\n".join(lines)


def summary(steps: list[Step]) -> str:
    """How many objects a plan would create, change and replace."""
    counts = {action: sum(step.action == action for step in steps) for action in CHANGING}
    return ", ".join(f"{n} to {action}" for action, n in counts.items() if n) or "nothing to change"


def apply(
    cluster: Cluster, steps: list[Step], report: Report, force: bool = False, after: After | None = None
) -> None:
    """Carry a plan out, one object after the other; what is unchanged is left alone.

    Args:
        after: called with each object that was applied, before the next one is; may wait for it.

    Raises:
        ClusterError: at the first object refused; says how far it came. Applying again goes on from there.
    """
    todo = [step for step in steps if step.action != "unchanged"]
    done = 0
    try:
        for step in todo:
            with explained(f"apply {title(step.manifest)}"):
                if step.action == "replace":
                    remove(cluster, step.manifest)
                _send(cluster, step.manifest, force)
            done += 1
            report(f"{step.action:9} {title(step.manifest)}")
            if after:
                after(step.manifest)
    except (ClusterError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted"
        raise ClusterError(
            f"{why}. {done} of {len(todo)} objects are on; mend it and apply again: it goes on from there"
        ) from error


def remove(cluster: Cluster, manifest: Manifest) -> bool:
    """Delete one object with what it owns; whether it was there."""
    resource = cluster.resource(manifest["apiVersion"], manifest["kind"])
    metadata = manifest["metadata"]
    try:
        resource.delete(
            name=metadata["name"], namespace=metadata.get("namespace"),
            body={"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"},
        )  # fmt: skip
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True


def deletable(manifests: list[Manifest], everything: bool) -> Iterator[Manifest]:
    """What a delete takes, last applied first: the namespace and the volumes only when asked for."""
    return (m for m in reversed(ordered(manifests)) if everything or m["kind"] not in KEPT)


def delete(cluster: Cluster, manifests: list[Manifest], report: Report, everything: bool = False) -> None:
    """Delete objects; those that are gone already are no mistake.

    Raises:
        ClusterError: if the server refuses one.
    """
    for manifest in deletable(manifests, everything):
        known = cluster.dynamic.resources.search(api_version=manifest["apiVersion"], kind=manifest["kind"])
        with explained(f"delete {title(manifest)}"):
            there = bool(known) and remove(cluster, manifest)
        report(f"{'deleted' if there else 'was gone':9} {title(manifest)}")
