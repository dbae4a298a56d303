"""A port of this machine -> a pod's, through the API server: no Service is opened to anyone."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward
from kubernetes.stream.ws_client import PortForward

from specbook.deploy.cluster import Cluster, explained
from specbook.deploy.render import Manifest
from specbook.errors import ClusterError

CHUNK_BYTES = 1 << 16
Report = Callable[[str], None]


def ready_pod(cluster: Cluster, namespace: str, service: str) -> tuple[str, int]:
    """A pod behind a Service that serves now, and the port it serves on.

    Raises:
        ClusterError: if there is no such Service, or none of its pods is ready.
    """
    found = cluster.get("v1", "Service", namespace, service)
    if found is None:
        raise ClusterError(f"no Service {namespace}/{service} on {cluster.context!r}: apply an overlay first")
    pods = cluster.list("v1", "Pod", namespace, found["spec"]["selector"])
    for pod in pods:
        if _is_ready(pod):
            return pod["metadata"]["name"], _port(pod, found["spec"]["ports"][0]["targetPort"])
    raise ClusterError(f"none of {len(pods)} pods of {service} is ready: `specbook deploy wait` says why")


def _is_ready(pod: Manifest) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _port(pod: Manifest, target: str | int) -> int:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    return next((p["containerPort"] for p in ports if p.get("name") == target), target)


@contextmanager
def forwarded(cluster: Cluster, namespace: str, service: str, local: int, report: Report) -> Iterator[int]:
    """Listen on 127.0.0.1 while the block lasts; each connection goes to a pod that is ready then.

    Args:
        local: port of this machine; 0 for any that is free.

    Raises:
        ClusterError: if the port is taken, or no pod is ready.
    """
    ready_pod(cluster, namespace, service)  # say so now, not at the first connection
    try:
        listener = socket.create_server(("127.0.0.1", local))
    except OSError as error:
        raise ClusterError(
            f"cannot listen on 127.0.0.1:{local} ({error.strerror}): name another port"
        ) from error
    with listener:
        threading.Thread(
            target=_serve, args=(listener, cluster, namespace, service, report), daemon=True
        ).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, cluster: Cluster, namespace: str, service: str, report: Report) -> None:
    with contextlib.suppress(OSError):  # the block was left
        while True:
            client, _ = listener.accept()
            threading.Thread(
                target=_carry, args=(client, cluster, namespace, service, report), daemon=True
            ).start()


def _carry(client: socket.socket, cluster: Cluster, namespace: str, service: str, report: Report) -> None:
    with client:
        try:
            pod, port = ready_pod(cluster, namespace, service)
            with explained(f"forward to {pod}:{port}"):
                tunnel = _open(cluster, namespace, pod, port)
        except ClusterError as error:
            report(str(error))
            return
        _join(client, tunnel.socket(port))
        if tunnel.error(port):
            report(f"{pod}:{port}: {tunnel.error(port).strip()}")


def _open(cluster: Cluster, namespace: str, pod: str, port: int) -> PortForward:
    # A client of its own: the stream call swaps the transport of the one it is given while it connects.
    core = CoreV1Api(type(cluster.api)(cluster.api.configuration))
    try:
        return portforward(core.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port))
    except ApiException:
        raise
    except OSError as error:
        raise ClusterError(f"the API server closed the tunnel to {pod}:{port}: {error}") from error


def _join(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways until either side ends."""
    with selectors.DefaultSelector() as waiting, contextlib.suppress(OSError):
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in waiting.select():
                data = key.fileobj.recv(CHUNK_BYTES)
                if not data:
                    other.close()
                    return
                key.data.sendall(data)
