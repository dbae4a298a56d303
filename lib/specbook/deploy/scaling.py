"""Whether an autoscaler can do what it was told, and never what it must not."""

import math
from collections.abc import Iterator

from specbook.deploy import arithmetic
from specbook.deploy.objects import PodTemplate, accelerators, annotation, find, number
from specbook.deploy.render import Manifest, title


def problems(manifests: list[Manifest], serving: PodTemplate) -> Iterator[str]:
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
    fitting = arithmetic.max_replicas(int(pool), per_pod, surge)
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


def _behavior(scaler: Manifest) -> Manifest:
    spec = scaler["spec"]
    return spec.get("behavior") or spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get(
        "behavior", {}
    )


def _window_problems(scaler: Manifest, serving: PodTemplate) -> Iterator[str]:
    down = _behavior(scaler).get("scaleDown", {})
    if down.get("selectPolicy") == "Disabled":
        return
    cold = annotation(serving, "cold-start-seconds") or 0
    window, want = down.get("stabilizationWindowSeconds", 300), arithmetic.scale_down_window_s(cold)
    if want > arithmetic.SCALE_DOWN_LIMIT_S and cold:
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
