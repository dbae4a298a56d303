"""What a scenario on Kubernetes sets: the Deployment and its scaling, the load, actions, a late balancer.

The Deployment is that of overlays/cpu with the shipped autoscaler and rules.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import psutil
from pydantic import Field

from specbook import paths
from specbook.bench.open_loop import Segment
from specbook.config.schema import Frozen, Name
from specbook.deploy.manifests import Manifest, find, overlay, render
from specbook.errors import ClusterError

NAMESPACE, NAME = "specbook", "specbook-server"
POD_LABELS = "app.kubernetes.io/name=specbook,app.kubernetes.io/component=server"
MONITORING = ("PodMonitor", "PrometheusRule")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""Several servers share a small machine: one thread each, on no core of its own."""
AWAKE_S = 0.5
"""Long enough for kube-proxy to write its rules once."""


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


class Action(Frozen):
    """Something done to the cluster while the load runs; one begins when the one before has ended."""

    at_s: float = Field(ge=0)
    do: Literal["restart", "undo", "apply", "scale", "evict", "kill", "stop_metrics", "start_metrics"]
    serving: Serving | None = None
    """What `apply` applies."""
    replicas: int = 1
    """What `scale` sets."""
    name: str | None = None
    """For pages, where `do` says too little."""
    timeout_s: float = Field(default=300, gt=0)
    """How long its rollout is waited for; a rollout that is late is an outcome, not an error."""


class Scenario(Frozen):
    """One load, one Deployment, and a list of actions."""

    scenario: str
    """Its name, for pages."""
    repeat: int = 0
    serving: Serving
    replicas: int = Field(default=1, ge=1)
    """Pods that are ready before the load begins."""
    segments: tuple[Segment, ...] = Field(min_length=1)
    actions: tuple[Action, ...] = ()
    until_ready: int | None = None
    """The last segment ends `tail_s` after so many pods are ready, and all actions are done."""
    tail_s: float = Field(default=30, ge=0)
    balancer_lag_s: float = Field(default=0, ge=0, le=60)
    """How late the balancer may be; needs the cluster of `make cluster`, whose kube-proxy is then paused."""
    domains: tuple[Name, ...] = ("json", "math", "chat")
    max_tokens: int = Field(ge=1)
    seed: int = 0


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


@contextmanager
def late_balancer(lag_s: float) -> Iterator[None]:
    """Let the local cluster's kube-proxy write its rules at most every `lag_s`; 0 leaves it alone.

    A cloud's balancer takes seconds to drop a pod, kube-proxy on one node takes none.

    Raises:
        ClusterError: if no kube-proxy of `make cluster` runs here.
    """
    if not lag_s:
        yield
        return
    proxy, done = _proxy(), threading.Event()

    def pause() -> None:
        while not done.is_set():
            os.kill(proxy, signal.SIGSTOP)
            done.wait(lag_s)
            os.kill(proxy, signal.SIGCONT)
            done.wait(AWAKE_S)

    pauses = threading.Thread(target=pause, name="late-balancer", daemon=True)
    pauses.start()
    try:
        yield
    finally:
        done.set()
        pauses.join()


def _proxy() -> int:
    """The process id of kube-proxy, as `make cluster` keeps it."""
    pid_file = paths.build_dir() / "cluster" / "run" / "pids.json"
    pid = json.loads(pid_file.read_text()).get("proxy") if pid_file.is_file() else None
    if pid is None or not psutil.pid_exists(pid):
        raise ClusterError(
            f"balancer_lag_s pauses the kube-proxy of `make cluster`, and {pid_file} names none that runs. "
            "To fix: `make cluster`, or leave balancer_lag_s out"
        )
    return int(pid)
