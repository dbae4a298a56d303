"""The Deployment of overlays/cpu with the shipped autoscaler and rules, and what an experiment changes."""

from collections.abc import Iterator

from pydantic import Field

from specbook import paths
from specbook.config.schema import Frozen
from specbook.deploy.manifests import Manifest, find, overlay, render

NAMESPACE, NAME = "specbook", "specbook-server"
POD_LABELS = "app.kubernetes.io/name=specbook,app.kubernetes.io/component=server"
MONITORING = ("PodMonitor", "PrometheusRule")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""Several servers share a small machine: one thread each, on no core of its own."""


class Serving(Frozen):
    """What is served, and how it scales; None leaves a value as shipped."""

    cpu_limit: str | None = None
    """Kubernetes quantity: what a pod may take at most."""
    cpu_request: str | None = None
    max_num_seqs: int | None = Field(default=None, ge=1)
    """Slots: sequences that a server decodes at once."""
    speculation: bool = True
    autoscaler: bool = True
    max_replicas: int = Field(default=3, ge=1)
    """Most pods of the autoscaler; its least is 1 here, where one machine is the pool."""
    scale_down_window_s: int | None = Field(default=None, ge=0)
    pre_stop_s: int | None = Field(default=None, ge=0)
    """0 removes the hook."""
    shutdown_timeout_s: int | None = Field(default=None, ge=0)
    grace_s: int | None = Field(default=None, ge=0)
    max_surge: int | None = None
    max_unavailable: int | None = None
    replicas: int | None = None
    """Written into the Deployment, where an autoscaler should own it."""
    model: str | None = None
    """Another model folder of the image, such as one that does not exist."""
    environment: dict[str, str] = Field(default_factory=lambda: dict(ONE_THREAD))


def manifests(serving: Serving) -> tuple[list[Manifest], list[str]]:
    """The objects to apply, autoscaler included, and one line for each change of what is shipped."""
    shipped = render(paths.root() / "deploy" / "base")
    scaler = find(shipped, "HorizontalPodAutoscaler")
    objects = render(overlay("cpu")) + [one for kind in MONITORING for one in find(shipped, kind)]
    deployment = find(objects, "Deployment")[0]
    changed = [*_of_pod(deployment, serving), *_of_deployment(deployment, serving)]
    if serving.autoscaler:
        changed += list(_of_scaler(scaler[0], serving))
        objects += scaler
    return objects, changed


def _of_pod(deployment: Manifest, serving: Serving) -> Iterator[str]:
    spec = deployment["spec"]["template"]["spec"]
    container = spec["containers"][0]
    flags = {"--max-num-seqs": serving.max_num_seqs, "--shutdown-timeout": serving.shutdown_timeout_s,
             "--model": serving.model}  # fmt: skip
    for flag, value in flags.items():
        if value is not None:
            container["args"] = [
                f"{flag}={value}" if a.startswith(f"{flag}=") else a for a in container["args"]
            ]
            yield f"{flag}={value}"
    if not serving.speculation:
        container["args"] = [a for a in container["args"] if not a.startswith("--speculative-config")]
        yield "no --speculative-config"
    container["env"] += [{"name": name, "value": value} for name, value in serving.environment.items()]
    yield from (f"{name}={value}" for name, value in serving.environment.items())
    if serving.cpu_limit:
        container["resources"]["limits"]["cpu"] = serving.cpu_limit
        yield f"CPU limit {serving.cpu_limit}"
    if request := serving.cpu_request or serving.cpu_limit:
        container["resources"]["requests"]["cpu"] = request
        yield f"CPU request {request}"
    if serving.pre_stop_s is not None:
        container["lifecycle"] = (
            {"preStop": {"sleep": {"seconds": serving.pre_stop_s}}} if serving.pre_stop_s else {}
        )
        yield f"preStop {serving.pre_stop_s} s" if serving.pre_stop_s else "no preStop"
    if serving.grace_s is not None:
        spec["terminationGracePeriodSeconds"] = serving.grace_s
        yield f"terminationGracePeriodSeconds {serving.grace_s}"


def _of_deployment(deployment: Manifest, serving: Serving) -> Iterator[str]:
    rolling = deployment["spec"]["strategy"]["rollingUpdate"]
    for name, value in (("maxSurge", serving.max_surge), ("maxUnavailable", serving.max_unavailable)):
        if value is not None:
            rolling[name] = value
            yield f"{name} {value}"
    if serving.replicas is not None:
        deployment["spec"]["replicas"] = serving.replicas
        yield f"spec.replicas {serving.replicas}"


def _of_scaler(scaler: Manifest, serving: Serving) -> Iterator[str]:
    scaler["spec"] |= {"minReplicas": 1, "maxReplicas": serving.max_replicas}
    yield f"autoscaler: 1 to {serving.max_replicas} pods"
    if serving.scale_down_window_s is not None:
        scaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = serving.scale_down_window_s
        yield f"autoscaler: scale-in window {serving.scale_down_window_s} s"
