"""A cluster read once a second through `kubectl proxy`: pods, autoscaler, signals, the servers' counters."""

import re
import threading
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import httpx

from specbook.bench.cluster_scenario import NAME, NAMESPACE, POD_LABELS
from specbook.deploy.kubectl import minor_of
from specbook.deploy.manifests import quantity, served
from specbook.records.experiment_results import PodLife, Timeline

PERIOD_S = 1.0
METRICS_TIMEOUT_S = 3.0
"""Seconds to wait for one server's page: one that hangs must not stop the clock for all."""
SIGNALS = {"queue_wait_ms": "specbook_queue_wait_ms", "queue_time_p95_ms": "specbook_queue_time_p95_ms"}
"""Column of the timeline -> name in the external metrics API."""
GAUGES = {"running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting"}
COUNTERS = {
    "num_drafts": "vllm:spec_decode_num_drafts_total",
    "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}


class ClusterApi:
    """Reads one Deployment's surroundings from the API server."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        version = self.get("/version")
        self.version: str = version["gitVersion"]
        self.minor = minor_of(version)

    def get(self, path: str) -> dict[str, Any]:
        """An object; raises httpx.HTTPError where there is none."""
        return self._client.get(path).raise_for_status().json()

    def has(self, group_version: str) -> bool:
        """Whether the cluster serves an API group."""
        return self._client.get(f"/apis/{group_version}").is_success

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """The answer, whatever its status."""
        return self._client.post(path, json=body)

    def deployment(self) -> dict[str, Any]:
        """The Deployment."""
        return self.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}")

    def pods(self) -> list[dict[str, Any]]:
        """Its pods, those that are ending included."""
        return self.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={POD_LABELS}")["items"]

    def autoscaler(self) -> dict[str, Any]:
        """The autoscaler."""
        group = served("autoscaling/v2", "HorizontalPodAutoscaler", self.minor)
        return self.get(f"/apis/{group}/namespaces/{NAMESPACE}/horizontalpodautoscalers/{NAME}")

    def signal(self, metric: str) -> float:
        """An external metric as the autoscaler reads it."""
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/{metric}"
        return sum(quantity(item["value"]) for item in self.get(path)["items"])

    def metrics(self, pod: str) -> dict[str, float]:
        """A server's gauges and counters that a timeline keeps."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8000/proxy/metrics"
        text = self._client.get(path, timeout=METRICS_TIMEOUT_S).raise_for_status().text
        return {name: _sum(text, metric) for name, metric in {**GAUGES, **COUNTERS}.items()}


def _sum(text: str, metric: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod takes requests: ready, and not ending."""
    return "deletionTimestamp" not in pod["metadata"] and _when(pod, "Ready") is not None


def _when(pod: dict[str, Any], condition: str) -> float | None:
    for one in pod["status"].get("conditions") or []:
        if one["type"] == condition and one["status"] == "True":
            return _unix(one["lastTransitionTime"])
    return None


def _unix(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


class Observer:
    """Keeps the timeline of a Deployment, in a thread of its own, while it is entered."""

    def __init__(self, api: ClusterApi) -> None:
        self._api, self._done = api, threading.Event()
        self._rows: list[dict[str, float | None]] = []
        self._pods: dict[str, dict[str, Any]] = {}
        self._first: dict[str, dict[str, float]] = {}
        self._last: dict[str, dict[str, float]] = {}

    def __enter__(self) -> "Observer":
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def ready(self) -> int:
        """Pods that were ready at the last reading."""
        return int((self._rows[-1]["ready"] if self._rows else None) or 0)

    def _watch(self) -> None:
        while True:
            began = time.time()
            self._rows.append({"at_s": began, **self._read(began)})
            if self._done.wait(max(0.05, began + PERIOD_S - time.time())):
                return

    def _read(self, now: float) -> dict[str, float | None]:
        row: dict[str, float | None] = dict.fromkeys(Timeline.model_fields)
        del row["at_s"]
        with suppress(httpx.HTTPError):
            row["wanted"] = self._api.deployment()["spec"]["replicas"]
        with suppress(httpx.HTTPError):
            pods = self._api.pods()
            ready = [pod["metadata"]["name"] for pod in pods if is_ready(pod)]
            row |= {"existing": len(pods), "ready": len(ready)}
            self._note(pods, now)
            row |= self._servers(ready)
        with suppress(httpx.HTTPError):
            row["desired"] = self._api.autoscaler().get("status", {}).get("desiredReplicas")
        for column, metric in SIGNALS.items():
            with suppress(httpx.HTTPError, ValueError):
                row[column] = self._api.signal(metric)
        return row

    def _servers(self, pods: list[str]) -> dict[str, float]:
        read: list[dict[str, float]] = []
        for pod in pods:
            with suppress(httpx.HTTPError):
                counted = self._api.metrics(pod)
                self._first.setdefault(pod, counted)
                self._last[pod] = counted
                read.append(counted)
        return {name: sum(one[name] for one in read) for name in GAUGES} if read else {}

    def _note(self, pods: list[dict[str, Any]], now: float) -> None:
        for pod in pods:
            metadata, status = pod["metadata"], pod["status"]
            created = {"created_s": _unix(metadata["creationTimestamp"])}
            life = self._pods.setdefault(metadata["name"], created)
            if "deletionTimestamp" in metadata:
                life.setdefault("deleted_s", now)
            container = next(iter(status.get("containerStatuses") or []), {})
            running = container.get("state", {}).get("running")
            life["restarts"] = container.get("restartCount", 0)
            stages = {
                "scheduled_s": _when(pod, "PodScheduled"),
                "started_s": _unix(running["startedAt"]) if running else None,
                "ready_s": _when(pod, "Ready"),
            }
            life |= {name: at for name, at in stages.items() if at is not None}
        present = {pod["metadata"]["name"] for pod in pods}
        for name, life in self._pods.items():
            if name not in present:
                life.setdefault("gone_s", now)

    def timeline(self, zero: float) -> Timeline:
        """All readings, on a clock that begins at `zero` (Unix time)."""
        columns = {name: tuple(row[name] for row in self._rows) for name in Timeline.model_fields}
        columns["at_s"] = tuple(round(at - zero, 2) for at in columns["at_s"])
        for name in (*SIGNALS, *GAUGES):
            columns[name] = tuple(None if value is None else round(value, 1) for value in columns[name])
        return Timeline(**columns)

    def pods(self, zero: float) -> tuple[PodLife, ...]:
        """Every pod that was seen, by its creation, on the same clock."""

        def shifted(stage: str, value: float) -> float:
            return round(value - zero, 1) if stage.endswith("_s") else value

        lives = [
            PodLife(name=name, **{stage: shifted(stage, value) for stage, value in life.items()})
            for name, life in self._pods.items()
        ]
        return tuple(sorted(lives, key=lambda life: life.created_s))

    def drafted(self) -> dict[str, float]:
        """Growth of the draft counters, over the pods, from their first to their last reading."""
        return {
            name: sum(last[name] - self._first[pod][name] for pod, last in self._last.items())
            for name in COUNTERS
        }
