"""What a schema cannot see: whether the numbers and names of rendered manifests fit each other."""

import re
from collections.abc import Iterator

from specbook.deploy import access, arithmetic, scaling
from specbook.deploy.objects import (
    PodTemplate,
    annotation,
    find,
    flag,
    number,
    pod_templates,
    selects,
    server,
)
from specbook.deploy.pods import pod_problems
from specbook.deploy.render import Manifest, title

REVISION = re.compile(r"[0-9a-f]{40}")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def problems(manifests: list[Manifest]) -> list[str]:
    """One sentence for each thing that would hurt in operation; empty when all is well."""
    found = [problem for pod in pod_templates(manifests) for problem in pod_problems(pod)]
    serving = server(manifests)
    if serving:
        found += server_problems(serving)
        found += [*access.problems(manifests, serving), *scaling.problems(manifests, serving)]
    return [*found, *selector_problems(manifests), *revision_problems(manifests)]


def server_problems(pod: PodTemplate) -> Iterator[str]:
    """What lets requests die: probes, preStop, drain, grace."""
    container = pod.spec["containers"][0]
    if pod.owner["kind"] == "Deployment" and "replicas" in pod.owner["spec"]:
        yield f"{pod.name}: remove spec.replicas: every apply would undo the autoscaler"
    if missing := [name for name in PROBES if name not in container]:
        yield f"{pod.name}: {', '.join(missing)} missing"
    if "/dev/shm" not in [mount["mountPath"] for mount in container.get("volumeMounts", [])]:
        yield f"{pod.name}: mount a memory volume at /dev/shm (a container's default is 64 MB)"
    yield from _drain_problems(pod, container)
    yield from _start_problems(pod, container)


def _drain_problems(pod: PodTemplate, container: Manifest) -> Iterator[str]:
    pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = int(number(flag(container, "shutdown-timeout") or "0", f"{pod.name}: --shutdown-timeout"))
    grace = pod.spec.get("terminationGracePeriodSeconds", 30)
    lag, longest = annotation(pod, "balancer-lag-seconds"), annotation(pod, "longest-request-seconds")
    needed = arithmetic.pre_stop_s(lag or 0) if lag is not None else 1
    if pause < needed:
        yield f"{pod.name}: preStop sleeps {pause} s, balancers send for {needed} s: requests are lost"
    if drain <= 0:
        yield f"{pod.name}: --shutdown-timeout is 0, which aborts every request in flight"
    elif longest is not None and drain < longest:
        yield f"{pod.name}: --shutdown-timeout={drain} cuts requests that last {longest:g} s"
    if grace < (want := arithmetic.termination_grace_s(pause, drain)):
        yield (
            f"{pod.name}: terminationGracePeriodSeconds {grace} is below {want} = preStop {pause} "
            f"+ shutdown-timeout {drain} + exit {arithmetic.EXIT_S}: the rest is killed"
        )


def _start_problems(pod: PodTemplate, container: Manifest) -> Iterator[str]:
    cold = annotation(pod, "cold-start-seconds")
    probe = container.get("startupProbe")
    if cold is None or probe is None:
        return
    allowed = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)
    if allowed < (want := arithmetic.startup_allowance_s(cold)):
        yield f"{pod.name}: the startup probe allows {allowed} s, twice the cold start is {want} s"
    deadline = pod.owner["spec"].get("progressDeadlineSeconds", 600)
    if deadline <= allowed:
        yield f"{pod.name}: progressDeadlineSeconds {deadline} gives up before the startup probe, {allowed} s"


def selector_problems(manifests: list[Manifest]) -> Iterator[str]:
    """Selectors that pick no pod, and ports that no container has."""
    pods = list(pod_templates(manifests))
    for kind in ("Deployment", "Service", "PodDisruptionBudget", "PodMonitor", "NetworkPolicy"):
        for manifest in find(manifests, kind):
            spec = manifest["spec"]
            selector = spec.get("podSelector", spec.get("selector", {}))
            chosen = [pod for pod in pods if selects(selector, pod.labels)]
            if not chosen:
                yield f"{title(manifest)}: its selector picks no pod"
            elif unknown := _ports(manifest) - {
                port.get("name")
                for pod in chosen
                for c in pod.spec["containers"]
                for port in c.get("ports", [])
            }:
                yield f"{title(manifest)}: no container has a port named {sorted(unknown)[0]!r}"


def _ports(manifest: Manifest) -> set[str]:
    spec = manifest["spec"]
    named = [port.get("targetPort") for port in spec.get("ports", [])]
    named += [endpoint.get("port") for endpoint in spec.get("podMetricsEndpoints", [])]
    named += [port.get("port") for rule in spec.get("ingress", []) for port in rule.get("ports", [])]
    return {name for name in named if isinstance(name, str)}


def revision_problems(manifests: list[Manifest]) -> Iterator[str]:
    """Models that are not pinned to a commit, and a head for another target."""
    for manifest in find(manifests, "ConfigMap"):
        data = manifest.get("data", {})
        for name in ("TARGET_REVISION", "DRAFT_REVISION"):
            if name in data and not REVISION.fullmatch(data[name]):
                yield f"{title(manifest)}: {name} is {data[name]!r}: set the 40-digit commit in models.env"
        if "DRAFT_REVISION" in data and (meant := data.get("DRAFT_FOR")) != data.get("TARGET_REVISION"):
            yield f"{title(manifest)}: the head was trained for {meant}, not for this target"
