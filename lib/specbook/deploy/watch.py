"""Scaling as a timeline: what was asked for, what serves, and the signal behind it."""

import csv
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from specbook.deploy.explain import explain
from specbook.deploy.quantity import number
from specbook.deploy.render import Manifest
from specbook.errors import ClusterError, ConfigError


@dataclass(frozen=True)
class Sample:
    """One look at the service."""

    at_s: float
    """Since the first look."""
    wanted: int
    """Pods that the Deployment asks for."""
    total: int
    """Pods that exist."""
    available: int
    """Pods that serve."""
    desired: int | None
    """What the autoscaler asks for; None without one."""
    metrics: dict[str, float | None]
    """Its metrics as it reads them; None where it reads none."""


def read(client: httpx.Client, path: str) -> Manifest | None:
    """One object of the API; None when there is none.

    Raises:
        ClusterError: if the server refuses, or does not answer.
    """
    try:
        answer = client.get(path)
        if answer.status_code == 404:
            return None
        found = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ClusterError(f"cannot read {path}: no answer of the API server") from error
    if answer.is_error:
        raise ClusterError(explain(found.get("message", answer.reason_phrase), list))
    return found


def sample(client: httpx.Client, namespace: str, name: str, at_s: float) -> Sample:
    """Look once.

    Raises:
        ClusterError: if there is no such Deployment.
    """
    deployment = read(client, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    if deployment is None:
        raise ClusterError(f"no Deployment {namespace}/{name}. To fix: apply the overlay first")
    path = f"namespaces/{namespace}/horizontalpodautoscalers/{name}"
    versions = (read(client, f"/apis/autoscaling/{version}/{path}") for version in ("v2", "v2beta2"))
    scaler = next(filter(None, versions), None)
    status, wanted = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
    total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
    desired = scaler.get("status", {}).get("desiredReplicas") if scaler else None
    return Sample(at_s, wanted, total, available, desired, metrics(scaler) if scaler else {})


def metrics(scaler: Manifest) -> dict[str, float | None]:
    """External metrics of an autoscaler: name to current value, None for what it cannot read."""
    read_now = {
        metric["external"]["metric"]["name"]: metric["external"]["current"].get("value")
        for metric in scaler.get("status", {}).get("currentMetrics") or []
        if metric.get("type") == "External"
    }
    names = [m["external"]["metric"]["name"] for m in scaler["spec"].get("metrics", []) if "external" in m]
    return {name: number(read_now[name]) if read_now.get(name) else None for name in names}


def timeline(
    client: httpx.Client, namespace: str, name: str, duration_s: float, every_s: float
) -> Iterator[Sample]:
    """Look now, and again every `every_s` until the time is over."""
    start = time.monotonic()
    yield sample(client, namespace, name, 0.0)
    while time.monotonic() - start + every_s <= duration_s:
        time.sleep(every_s)
        yield sample(client, namespace, name, time.monotonic() - start)


def row(one: Sample) -> dict[str, object]:
    """A sample as one flat row, for CSV and JSON."""
    flat = asdict(one)
    return {name: value for name, value in flat.items() if name != "metrics"} | flat["metrics"]


def line(one: Sample) -> str:
    """A sample as one line for a terminal."""
    read_now = "  ".join(
        f"{name} {'unknown' if v is None else f'{v:.0f}'}" for name, v in one.metrics.items()
    )
    desired = "" if one.desired is None else f" (autoscaler: {one.desired})"
    bar = "#" * one.available + "." * max(0, one.total - one.available)
    pods = f"wanted {one.wanted}{desired}  serving {one.available}  {bar:8}"
    return f"{one.at_s:6.0f} s  {pods}  {read_now}".rstrip()


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """The timeline so far as CSV, whole after every sample: an interrupted watch keeps what it saw.

    Raises:
        ConfigError: if the file cannot be written.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
