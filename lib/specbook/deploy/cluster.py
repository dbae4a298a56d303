"""Kubeconfig -> a connection that knows its name, and errors that say what to do about them."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3.exceptions
import yaml
from kubernetes import config
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from kubernetes.dynamic.resource import Resource

from specbook.deploy.render import Manifest
from specbook.errors import ClusterError
from specbook.mistakes import near

TIMEOUT_S = (10, 30)  # to connect, to read
WITHOUT = {
    "monitoring.coreos.com": "install the Prometheus operator, or apply overlays/cpu, which does without it",
    "keda.sh": "install KEDA, or apply overlays/gpu, which scales with a HorizontalPodAutoscaler",
    "http.keda.sh": "install KEDA's HTTP add-on (0.15 or later)",
    "leaderworkerset.x-k8s.io": "install LeaderWorkerSet, or serve a model that fits one node",
    "resource.k8s.io": "Dynamic Resource Allocation needs Kubernetes 1.34: or apply overlays/neuron",
}


class PatientClient(DynamicClient):
    """The dynamic client, but never waiting for ever."""

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request, with `TIMEOUT_S` where the caller gives none."""
        return super().request(method, path, body, **{"_request_timeout": TIMEOUT_S, **params})


@dataclass(frozen=True)
class Cluster:
    """A connection to one cluster."""

    context: str
    """Its name in the kubeconfig."""
    server: str
    """Address of the API server."""
    api: ApiClient
    dynamic: DynamicClient

    def resource(self, api_version: str, kind: str) -> Resource:
        """Where objects of a kind are.

        Raises:
            ClusterError: if the cluster does not know the kind.
        """
        try:
            return self.dynamic.resources.get(api_version=api_version, kind=kind)
        except ResourceNotFoundError:
            raise ClusterError(missing_kind(api_version, kind, self.context)) from None

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """One object; None when there is none."""
        with explained(f"read {kind} {name}"):
            try:
                found = self.resource(api_version, kind).get(name=name, namespace=namespace)
            except ApiException as error:
                if error.status == 404:
                    return None
                raise
        return found.to_dict()

    def list(
        self, api_version: str, kind: str, namespace: str, labels: dict[str, str] | None = None
    ) -> list[Manifest]:
        """Objects of a kind in a namespace that carry these labels."""
        selector = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        with explained(f"list {kind} in {namespace}"):
            found = self.resource(api_version, kind).get(namespace=namespace, label_selector=selector or None)
        return [item.to_dict() for item in found.items]


def missing_kind(api_version: str, kind: str, context: str) -> str:
    """What to say when a cluster lacks a kind."""
    mend = WITHOUT.get(api_version.partition("/")[0], "install what provides it")
    return f"the cluster {context!r} does not know {kind} ({api_version}): {mend}"


@contextmanager
def connect(context: str | None = None, kubeconfig: Path | None = None) -> Iterator[Cluster]:
    """Open a connection by kubeconfig.

    Args:
        context: one of its contexts; None for the current one.
        kubeconfig: a file; None for $KUBECONFIG, else ~/.kube/config.

    Raises:
        ClusterError: if there is no such file or context, or the cluster does not answer.
    """
    chosen = choose(context, kubeconfig)
    try:
        api = config.new_client_from_config(str(kubeconfig) if kubeconfig else None, chosen)
    except ConfigException as error:
        raise ClusterError(f"the kubeconfig's context {chosen!r} cannot be used: {error}") from error
    # A cache of its own: the client's lies in the temporary folder for all users, and outlives a change.
    with tempfile.TemporaryDirectory() as scratch:
        server = api.configuration.host
        with explained(f"reach the cluster {chosen!r} at {server}"):
            dynamic = PatientClient(api, cache_file=f"{scratch}/discovery.json")
        yield Cluster(chosen, server, api, dynamic)


def choose(context: str | None, kubeconfig: Path | None) -> str:
    """The context's name, found in the kubeconfig.

    Raises:
        ClusterError: if there is no kubeconfig, or no such context in it.
    """
    try:
        contexts, current = config.list_kube_config_contexts(str(kubeconfig) if kubeconfig else None)
    except (ConfigException, yaml.YAMLError, TypeError, AttributeError, OSError, ValueError) as error:
        where = kubeconfig or "$KUBECONFIG or ~/.kube/config"
        raise ClusterError(
            f"no usable kubeconfig at {where} ({first_line(error)}): create one (`kind create cluster`), "
            "or name a file with --kubeconfig"
        ) from error
    names = [entry["name"] for entry in contexts]
    if context is not None and context not in names:
        raise ClusterError(f"no context {context!r} in the kubeconfig{near(context, names)}")
    return context or current["name"]


def first_line(error: Exception) -> str:
    """A parser's complaint without its excerpt of the file, which may hold a token."""
    return str(error).strip().partition("\n")[0]


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """API and transport errors become one sentence: what was being done, what was said, what mends it."""
    try:
        yield
    except ApiException as error:
        raise ClusterError(f"cannot {doing}: {explain(error)}") from error
    except urllib3.exceptions.HTTPError as error:
        raise ClusterError(f"cannot {doing}: no answer. Is the cluster up, and the address right?") from error


def explain(error: ApiException) -> str:
    """What the API server said, and the mend."""
    said = message(error)
    if error.status == 401:
        return "the API server does not know you (401): log in again, or renew the kubeconfig"
    if error.status == 403 and "exceeded quota" in said:
        return f"{said}. Raise the quota, or lower what is asked for (maxReplicas, requests)"
    if error.status == 403:
        return f"{said}. deploy/rbac.yaml has the rights this needs; an administrator can grant them"
    if error.status == 409 and "conflict" in said.lower():
        return f"{said}. Somebody else set these fields: apply --force-conflicts takes them over"
    return f"{said} ({error.status})"


def message(error: ApiException) -> str:
    """The `message` of the Status that an API server sends, else its reason."""
    try:
        body: dict[str, Any] = json.loads(error.body)
        return str(body["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)
