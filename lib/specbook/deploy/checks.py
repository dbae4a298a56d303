"""What a schema cannot see: whether the numbers and names of rendered manifests fit each other.

The numbers follow from cold start, drain and accelerators. Times: seconds.
"""

import math
from collections.abc import Iterator

from specbook.deploy.fetch import REVISION
from specbook.deploy.manifests import (
    Manifest,
    PodTemplate,
    accelerators,
    annotation,
    find,
    flag,
    number,
    pod_templates,
    selects,
    server,
    sounds_secret,
    title,
)

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
BUILT_IN_TOKEN = "automountServiceAccountToken"
KEY, OPEN_PATHS = "VLLM_API_KEY", "SPECBOOK_OPEN_PATHS"
VERSION = "specbook/target-version"
DOOR = "--middleware=specbook.engine.vllm.auth_middleware.Door"
EXIT_S = 10
"""For a drained server to leave: worker processes, the HTTP server, the container."""
LAG_MARGIN_S = 5
SCALE_DOWN_FLOOR_S = 300
SCALE_DOWN_LIMIT_S = 3600
"""The most that autoscaling/v2 accepts as a stabilisation window."""
COLD_STARTS = 2
"""A slow day's start may take twice the usual."""


def problems(manifests: list[Manifest]) -> list[str]:
    """One sentence for each thing that would hurt in operation; empty when all is well."""
    pod_problems = [problem for pod in pod_templates(manifests) for problem in _pod_problems(pod)]
    serving = server(manifests)
    if serving:
        pod_problems += _server_problems(serving)
        pod_problems += [*_key_problems(manifests, serving), *_scaling_problems(manifests, serving)]
    return [*pod_problems, *_selector_problems(manifests), *_revision_problems(manifests)]


def _server_problems(pod: PodTemplate) -> Iterator[str]:
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
    needed = pre_stop_s(lag) if lag is not None else 1
    if pause < needed:
        yield f"{pod.name}: preStop sleeps {pause} s, balancers send for {needed} s: requests are lost"
    if drain <= 0:
        yield f"{pod.name}: --shutdown-timeout is 0, which aborts every request in flight"
    elif longest is not None and drain < longest:
        yield f"{pod.name}: --shutdown-timeout={drain} cuts requests that last {longest:g} s"
    if grace < (want := termination_grace_s(pause, drain)):
        yield (
            f"{pod.name}: terminationGracePeriodSeconds {grace} is below {want} = preStop {pause} "
            f"+ shutdown-timeout {drain} + exit {EXIT_S}: the rest is killed"
        )


def _start_problems(pod: PodTemplate, container: Manifest) -> Iterator[str]:
    cold = annotation(pod, "cold-start-seconds")
    probe = container.get("startupProbe")
    if cold is None or probe is None:
        return
    allowed = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)
    if allowed < (want := math.ceil(COLD_STARTS * cold)):
        yield f"{pod.name}: the startup probe allows {allowed} s, twice the cold start is {want} s"
    deadline = pod.owner["spec"].get("progressDeadlineSeconds", 600)
    if deadline <= allowed:
        yield f"{pod.name}: progressDeadlineSeconds {deadline} gives up before the startup probe, {allowed} s"


def _selector_problems(manifests: list[Manifest]) -> Iterator[str]:
    """Selectors that pick no pod, and ports that no container has."""
    pods = list(pod_templates(manifests))
    for kind in ("Deployment", "Service", "PodDisruptionBudget", "PodMonitor", "NetworkPolicy"):
        for manifest in find(manifests, kind):
            spec = manifest["spec"]
            selector = spec.get("podSelector", spec.get("selector", {}))
            chosen = [pod for pod in pods if selects(selector, pod.labels)]
            if not chosen:
                yield f"{title(manifest)}: its selector picks no pod"
                continue
            containers = [container for pod in chosen for container in pod.spec["containers"]]
            there = {port.get("name") for one in containers for port in one.get("ports", [])}
            if unknown := _ports(manifest) - there:
                yield f"{title(manifest)}: no container has a port named {sorted(unknown)[0]!r}"


def _ports(manifest: Manifest) -> set[str]:
    spec = manifest["spec"]
    named = [port.get("targetPort") for port in spec.get("ports", [])]
    named += [endpoint.get("port") for endpoint in spec.get("podMetricsEndpoints", [])]
    named += [port.get("port") for rule in spec.get("ingress", []) for port in rule.get("ports", [])]
    return {name for name in named if isinstance(name, str)}


def _revision_problems(manifests: list[Manifest]) -> Iterator[str]:
    """Models that are not pinned to a commit, a head for another target, and labels of other models."""
    for manifest in find(manifests, "ConfigMap"):
        data = manifest.get("data", {})
        for name in ("TARGET_REVISION", "DRAFT_REVISION"):
            if name in data and not REVISION.fullmatch(data[name]):
                yield f"{title(manifest)}: {name} is {data[name]!r}: set the 40-digit commit in models.env"
        if "DRAFT_REVISION" in data and (meant := data.get("DRAFT_FOR")) != data.get("TARGET_REVISION"):
            yield f"{title(manifest)}: the head was trained for {meant}, not for this target"
        for pod in pod_templates(manifests) if "TARGET_REVISION" in data else ():
            label = pod.labels.get(VERSION, "")
            if REVISION.fullmatch(label) and label != data["TARGET_REVISION"]:
                yield f"{pod.name}: {VERSION} is of other models: name model-labels behind models.env"


def _pod_problems(pod: PodTemplate) -> Iterator[str]:
    """One sentence for each rule a pod breaks."""
    spec = pod.spec
    if spec.get("enableServiceLinks", True):
        yield f"{pod.name}: set enableServiceLinks: false (a Service called vllm would set VLLM_PORT)"
    if spec.get(BUILT_IN_TOKEN, True) and "serviceAccountName" not in spec:
        yield f"{pod.name}: set {BUILT_IN_TOKEN}: false (it never talks to the API server)"
    context = spec.get("securityContext", {})
    if not context.get("runAsNonRoot") or context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield f"{pod.name}: the pod's securityContext needs runAsNonRoot and seccompProfile RuntimeDefault"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        yield from _container_problems(f"{pod.name}, container {container['name']}", container)


def _container_problems(where: str, container: Manifest) -> Iterator[str]:
    context = container.get("securityContext", {})
    drop = context.get("capabilities", {}).get("drop")
    if context.get("allowPrivilegeEscalation", True) or drop != ["ALL"]:
        yield f"{where}: the namespace is restricted: allowPrivilegeEscalation: false and drop ALL"
    if not _pinned(container["image"]):
        yield f"{where}: image {container['image']!r} is not pinned: name a release tag or a digest"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield f"{where}: without a memory limit it may take the node with it"
    for variable in filter(sounds_secret, container.get("env", [])):
        yield f"{where}: {variable['name']} is written out: who may read pods may read it. Use a Secret"
    for port in container.get("ports", []):
        if "protocol" not in port:
            yield f"{where}: port {port['containerPort']} names no protocol, by which apply merges"


def _pinned(image: str) -> bool:
    """Whether an image names a digest, or a tag other than `latest`."""
    if "@sha256:" in image:
        return True
    _, colon, tag = image.rsplit("/", 1)[-1].partition(":")
    return bool(colon) and tag not in ("", "latest")


def _key_problems(manifests: list[Manifest], serving: PodTemplate) -> Iterator[str]:
    """One sentence for each path that the key leaves open, or shuts, against what is meant."""
    container = serving.spec["containers"][0]
    variables = {each["name"]: each.get("value", "") for each in container.get("env", [])}
    if KEY not in variables:
        return
    if DOOR not in container["args"]:
        yield f"{serving.name}: its key is asked for below /v1 only, add {DOOR}"
    probes = [probe for name, probe in container.items() if name.endswith("Probe")]
    probed = sorted({probe["httpGet"]["path"] for probe in probes if "httpGet" in probe})
    keyless = [(f"{serving.name}: a probe", path) for path in probed]
    keyless += [
        (title(monitor), endpoint.get("path", "/metrics"))
        for monitor in find(manifests, "PodMonitor")
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
        if "authorization" not in endpoint
    ]
    for who, path in keyless:
        if path not in variables.get(OPEN_PATHS, "").split():
            yield f"{who} brings no key: name {path} in {OPEN_PATHS}"


def _scaling_problems(manifests: list[Manifest], serving: PodTemplate) -> Iterator[str]:
    """One sentence for each rule that the autoscaler of the serving pods breaks."""
    for scaler in [*find(manifests, "HorizontalPodAutoscaler"), *find(manifests, "ScaledObject")]:
        target = scaler["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) != (serving.owner["kind"], serving.owner["metadata"]["name"]):
            yield f"{title(scaler)}: its target {target['kind']} {target['name']} is not among the manifests"
        yield from _bound_problems(scaler, serving)
        yield from _window_problems(scaler, serving)
        yield from _metric_problems(scaler, manifests)
        yield from _disruption_problems(scaler, manifests)


def bounds(scaler: Manifest) -> tuple[int, int]:
    """Least and most replicas of either kind of autoscaler."""
    spec = scaler["spec"]
    least = spec.get("minReplicas", spec.get("minReplicaCount", 1))
    return least, spec.get("maxReplicas", spec.get("maxReplicaCount", 100))


def _bound_problems(scaler: Manifest, serving: PodTemplate) -> Iterator[str]:
    pool = annotation(serving, "accelerators")
    per_pod = accelerators(serving.spec)
    least, most = bounds(scaler)
    if least > most:
        yield f"{title(scaler)}: minimum {least} is above maximum {most}"
    if not pool or not per_pod or serving.owner["kind"] != "Deployment":
        return
    surge = _surge(serving, most)
    fitting = max_replicas(int(pool), per_pod, surge)
    if most > fitting:
        yield (
            f"{title(scaler)}: maximum {most}, but {pool:g} accelerators / {per_pod} per pod - {surge} surge "
            f"= {fitting}: a rollout at full scale would wait for ever"
        )


def _surge(serving: PodTemplate, most: int) -> int:
    """Pods beyond the maximum while a rollout is on; a share is of all, rounded up, a quarter by default."""
    given = serving.owner["spec"].get("strategy", {}).get("rollingUpdate", {}).get("maxSurge", "25%")
    if isinstance(given, int):
        return given
    return math.ceil(most * number(given.rstrip("%"), f"{serving.name}: maxSurge") / 100)


def _window_problems(scaler: Manifest, serving: PodTemplate) -> Iterator[str]:
    keda = scaler["spec"].get("advanced", {}).get("horizontalPodAutoscalerConfig", {})
    down = (scaler["spec"].get("behavior") or keda.get("behavior", {})).get("scaleDown", {})
    if down.get("selectPolicy") == "Disabled":
        return
    cold = annotation(serving, "cold-start-seconds") or 0
    window, want = down.get("stabilizationWindowSeconds", 300), scale_down_window_s(cold)
    if want > SCALE_DOWN_LIMIT_S and cold:
        yield f"{title(scaler)}: no window covers a start of {cold:g} s: disable scale-in, or start faster"
    elif window < want:
        yield f"{title(scaler)}: scale-in after {window} s takes pods that still load; {want} s are needed"
    if "policies" not in down:
        yield f"{title(scaler)}: scale-in without a policy may drop every pod but the minimum at once"


def _metric_problems(scaler: Manifest, manifests: list[Manifest]) -> Iterator[str]:
    rules = recorded(manifests)
    served = {name.replace(":", "_") for name in rules}
    for metric in scaler["spec"].get("metrics", []):
        name = metric.get("external", {}).get("metric", {}).get("name")
        if name is not None and name not in served:
            yield f"{title(scaler)}: no recording rule makes its metric {name}"
    for trigger in scaler["spec"].get("triggers", []):
        query = trigger["metadata"].get("query", "").partition("{")[0]
        if query and query not in rules:
            yield f"{title(scaler)}: no recording rule makes its query {query}"


def recorded(manifests: list[Manifest]) -> set[str]:
    """Names that the recording rules make."""
    groups = [group for rule in find(manifests, "PrometheusRule") for group in rule["spec"]["groups"]]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


def _disruption_problems(scaler: Manifest, manifests: list[Manifest]) -> Iterator[str]:
    least, _ = bounds(scaler)
    for budget in find(manifests, "PodDisruptionBudget"):
        if budget["metadata"]["name"] != scaler["spec"]["scaleTargetRef"]["name"] or least == 0:
            continue
        away, kept = budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable")
        if isinstance(kept, int) and kept >= least:
            yield f"{title(budget)}: minAvailable {kept} with a minimum of {least} blocks every drain"
        if isinstance(away, int) and away >= least:
            yield f"{title(budget)}: a drain may take all of the minimum of {least} at once"


def pre_stop_s(balancer_lag_s: float) -> int:
    """How long an ending pod goes on serving before it is told to stop."""
    return math.ceil(balancer_lag_s + LAG_MARGIN_S)


def termination_grace_s(pre_stop_s: float, shutdown_timeout_s: float) -> int:
    """From the decision to end a pod to its SIGKILL: preStop, then draining, then leaving."""
    return math.ceil(pre_stop_s + shutdown_timeout_s + EXIT_S)


def scale_down_window_s(cold_start_s: float) -> int:
    """The shortest safe stabilisation window for scale-in.

    With a `Value` target the autoscaler multiplies a ratio by the pods that are ready. Those still loading
    are missing from that product, so a wish made while they load must not be granted before they serve.
    """
    return max(SCALE_DOWN_FLOOR_S, math.ceil(COLD_STARTS * cold_start_s))


def max_replicas(accelerators: int, per_pod: int, surge: int) -> int:
    """Pods that fit, once a rollout's surge pods have their place; below 1 when the pool is too small."""
    return accelerators // per_pod - surge


def reaction_bound_s(
    scrape_s: float, window_s: float, rule_s: float, relist_s: float, sync_s: float, cold_start_s: float
) -> float:
    """The latest that capacity arrives after a step in load: each stage at its worst, one after the other."""
    return scrape_s + window_s + rule_s + relist_s + sync_s + cold_start_s
