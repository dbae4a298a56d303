"""A load on Kubernetes while something happens to it: scaling, a rollout, a drain, a fault."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import httpx

from specbook.bench.cluster_scenario import (
    NAME,
    NAMESPACE,
    Action,
    Scenario,
    Serving,
    late_balancer,
    manifests,
)
from specbook.bench.cluster_timeline import SIGNALS, ClusterApi, Observer, is_ready
from specbook.bench.experiments import register
from specbook.bench.open_loop import OpenLoop, Segment
from specbook.config import prompt_files as files
from specbook.config.schema import Traffic
from specbook.deploy.kubectl import Kubectl, KubectlError, selected
from specbook.deploy.manifests import translated
from specbook.errors import ClusterError
from specbook.records.experiment_results import ActionOutcome, ClusterRun

ADDRESS = "SPECBOOK_SERVICE_URL"
"""Address that reaches the Service from here, if its cluster IP does not: a LoadBalancer, an ingress."""
INSIDE = f"--namespace={NAMESPACE}"
DEPLOYMENT = f"deployment/{NAME}"
SCALER = f"horizontalpodautoscaler/{NAME}"
ADAPTER = "apiservice/v1beta1.external.metrics.k8s.io"
READY_TIMEOUT_S = 600
SIGNAL_S = 25
"""Until what a pod counts is in the signals: Prometheus reads it and runs its rules each ten seconds."""
QUIET_TIMEOUT_S = 240
"""For signals to forget an earlier load: the rules look back over two minutes."""


def unreachable() -> str | None:
    """Why the cluster that `selected` names does not answer; None if it does."""
    try:
        Kubectl(selected()).where()
    except ClusterError as error:
        return str(error)
    return None


@register("cluster", Scenario, ClusterRun, lacking=unreachable)
def cluster(asked: Scenario) -> ClusterRun:
    """The scenario on the cluster that `selected` names.

    Raises:
        ClusterError: if the cluster cannot be reached, or the Deployment does not become ready. Requests that
            are lost are a result.
    """
    kubectl = Kubectl(selected())
    with kubectl.proxy() as client:
        return _Run(asked, kubectl, ClusterApi(client)).measure()


class _Run:
    def __init__(self, asked: Scenario, kubectl: Kubectl, api: ClusterApi) -> None:
        self.asked, self.kubectl, self.api = asked, kubectl, api
        self.notes: dict[str, None] = {}
        self.actions: list[ActionOutcome] = []
        self.done_at: float | None = None
        self.satisfied_at: float | None = None
        self.adapter: dict[str, Any] | None = None
        """The external metrics adapter's registration, while an action has taken it away."""

    def measure(self) -> ClusterRun:
        changed = self._prepare()
        load = OpenLoop(
            self._url(), "pocket-dense", self.asked.segments, self._prompts(), self.asked.max_tokens,
            self.asked.seed, may_end=lambda: self._may_end(observer),
        )  # fmt: skip
        try:
            lag = late_balancer(self.asked.balancer_lag_s)
            with Observer(self.api) as observer, self._autoscaled(), lag:
                load.start()
                operator = threading.Thread(target=self._operate, args=(load,), daemon=True)
                operator.start()
                requests = load.join()
                operator.join()
        finally:  # leave no fault behind
            if self.adapter is not None:
                self._start_metrics()
            self._delete_scaler()
        return ClusterRun(
            kubernetes=self.api.version, nodes=len(self.api.get("/api/v1/nodes")["items"]),
            changed=tuple(changed), translated=tuple(self.notes), segments_s=tuple(load.segments_s),
            ended_s=load.ended_s, requests=requests, timeline=observer.timeline(load.zero),
            pods=observer.pods(load.zero), actions=tuple(self.actions), spec_decode=observer.drafted(),
        )  # fmt: skip

    def _prompts(self) -> list[files.Prompt]:
        return [one for name in self.asked.domains for one in files.for_traffic(Traffic(domain=name))]

    def _may_end(self, observer: Observer) -> bool:
        if self.done_at is None or (self.asked.until_ready or 0) > observer.ready:
            self.satisfied_at = None
            return False
        self.satisfied_at = self.satisfied_at or time.time()
        return time.time() - self.satisfied_at >= self.asked.tail_s

    def _apply(self, serving: Serving, scaler: bool) -> list[str]:
        """Apply what this cluster knows of the manifests, with or without the autoscaler."""
        objects, changed = manifests(serving)
        supported = [one for one in objects if one["kind"] in self._kinds]
        unsupported = (one["kind"] for one in objects if one not in supported)
        self.notes |= {f"{kind} is not applied: this cluster does not know it": None for kind in unsupported}
        wanted = [one for one in supported if scaler or one["kind"] != "HorizontalPodAutoscaler"]
        older, notes = translated(wanted, self.api.minor)
        self.notes |= dict.fromkeys(notes)
        for namespaces in (True, False):  # they come first
            group = [one for one in older if (one["kind"] == "Namespace") is namespaces]
            self.kubectl.apply(group, "--force-conflicts", "--field-manager=specbook", "--validate=false")
        return changed

    @cached_property
    def _kinds(self) -> set[str]:
        rows = self.kubectl.run("api-resources", "--no-headers").splitlines()
        return {row.split()[-1] for row in rows if row.strip()}

    def _prepare(self) -> list[str]:
        """The Deployment as asked for, with its pods ready, no autoscaler yet, and signals at rest."""
        if self.asked.serving.autoscaler and not self.api.has("external.metrics.k8s.io/v1beta1"):
            raise ClusterError(
                "this cluster has no external metrics API, which the autoscaler reads. To fix: "
                "apply deploy/components/external-metrics-adapter, or install KEDA"
            )
        self._delete_scaler()
        try:
            changed = self._apply(self.asked.serving, scaler=False)
        except KubectlError as error:
            if "is invalid" not in error.stderr:
                raise
            # Kubernetes 1.20 keeps an emptied preStop of the Deployment before, and then refuses it.
            self.kubectl.run("delete", DEPLOYMENT, "--ignore-not-found", INSIDE)
            changed = self._apply(self.asked.serving, scaler=False)
        self.kubectl.run("scale", DEPLOYMENT, f"--replicas={self.asked.replicas}", INSIDE)
        self._wait("the Deployment", READY_TIMEOUT_S, self._settled)
        self._warm()
        if self.asked.serving.autoscaler and self.asked.replicas < self.asked.serving.max_replicas:
            # Signals of these requests, or of an earlier load, would scale it out at once, if it can be.
            time.sleep(SIGNAL_S)
            self._wait("the signals to come to rest", QUIET_TIMEOUT_S, self._quiet)
        return changed

    def _settled(self) -> bool:
        deployment, pods = self.api.deployment(), self.api.pods()
        seen = deployment["status"].get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        updated = deployment["status"].get("updatedReplicas", 0) == self.asked.replicas
        return seen and updated and len(pods) == self.asked.replicas and all(map(is_ready, pods))

    def _quiet(self) -> bool:
        return all(self.api.signal(metric) < 100 for metric in SIGNALS.values())

    def _wait(self, what: str, timeout_s: float, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(httpx.HTTPError):  # the API server may be busy: that is no yes
                if until():
                    return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"waited {timeout_s:g} s for {what}. To see why: kubectl -n {NAMESPACE} describe pods, "
                    "and kubectl get apiservices"
                )
            time.sleep(2)

    def _warm(self) -> None:
        """A few requests to every pod: the first batches after a start take longer."""
        short = Segment(rate_per_s=2.0 * self.asked.replicas, duration_s=8)
        load = OpenLoop(
            self._url(), "pocket-dense", [short], self._prompts(), self.asked.max_tokens, self.asked.seed + 1
        )
        load.start()
        answered = load.join()
        if "whole" not in answered.outcome:
            raise ClusterError(
                f"the Service at {self._url()} answered none of {len(answered.outcome)} requests "
                f"({answered.errors}). To fix: set {ADDRESS} to an address that reaches it from here"
            )

    def _url(self) -> str:
        address = self.kubectl.get(f"service/{NAME}", INSIDE)["spec"]["clusterIP"]
        return os.environ.get(ADDRESS) or f"http://{address}:8000"

    @contextmanager
    def _autoscaled(self) -> Iterator[None]:
        if self.asked.serving.autoscaler:
            self._apply(self.asked.serving, scaler=True)
            time.sleep(20)  # one period of the autoscaler: it has read both signals once
        yield
        self._delete_scaler()

    def _delete_scaler(self) -> None:
        self.kubectl.run("delete", SCALER, "--ignore-not-found", INSIDE)

    def _operate(self, load: OpenLoop) -> None:
        for action in self.asked.actions:
            while load.alive and time.time() < load.zero + action.at_s:
                time.sleep(0.2)
            began = time.time()
            try:
                outcome = self._do(action)
            except (ClusterError, httpx.HTTPError) as error:
                outcome = f"failed: {error}"
            times = {"began_s": began - load.zero, "ended_s": time.time() - load.zero}
            rounded = {name: round(value, 1) for name, value in times.items()}
            self.actions.append(
                ActionOutcome(action=action.name or action.do, outcome=outcome.strip()[-300:], **rounded)
            )
        self.done_at = time.time()

    def _do(self, action: Action) -> str:
        run, timeout = self.kubectl.run, action.timeout_s
        match action.do:
            case "restart" | "undo":
                run("rollout", action.do, DEPLOYMENT, INSIDE)
            case "apply":
                self._apply(action.serving or self.asked.serving, scaler=self.asked.serving.autoscaler)
            case "scale":
                run("scale", DEPLOYMENT, f"--replicas={action.replicas}", INSIDE)
            case "kill":
                victim = next(pod["metadata"]["name"] for pod in self.api.pods() if is_ready(pod))
                outcome = run("delete", "pod", victim, "--grace-period=0", "--force", INSIDE)
                self._wait("all pods again", timeout, self._settled)
                return outcome
            case "evict":
                outcome = self._evict()
                self._wait("all pods again", timeout, self._settled)
                return outcome
            case "stop_metrics":
                self.adapter = self.kubectl.get(ADAPTER)
                return run("delete", ADAPTER)
            case "start_metrics":
                return self._start_metrics()
        status = ("rollout", "status", DEPLOYMENT, f"--timeout={timeout:g}s", INSIDE)
        return run(*status, timeout_s=timeout + 30).splitlines()[-1]

    def _start_metrics(self) -> str:
        assert self.adapter is not None
        metadata = {key: self.adapter["metadata"].get(key) for key in ("name", "labels")}
        body = {**self.adapter, "metadata": metadata}
        del body["status"]
        # Not applied: the API server of 1.20 panics on a server-side apply of an APIService.
        answer = self.kubectl.run("create", "-f", "-", stdin=json.dumps(body))
        self.adapter = None
        return answer

    def _evict(self) -> str:
        """Ask for the eviction of every pod at once, as a drain does: what the disruption budget allows."""
        group = "policy/v1" if self.api.minor >= 22 else "policy/v1beta1"
        answers = []
        for pod in filter(is_ready, self.api.pods()):
            name = pod["metadata"]["name"]
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
            metadata = {"name": name, "namespace": NAMESPACE}
            body = {"apiVersion": group, "kind": "Eviction", "metadata": metadata}
            answers.append(self.api.post(path, body).status_code)
        allowed = sum(status < 300 for status in answers)
        return (
            f"{allowed} of {len(answers)} evictions were allowed, {answers.count(429)} refused by the budget"
        )
