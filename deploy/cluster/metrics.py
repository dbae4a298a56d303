"""What a cloud's cluster has installed: targets for Prometheus from the pods, and external metrics.

One process does both, so that ending it is a dead source of metrics. Runs in build/cluster/run.
"""

import json
import math
import re
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import yaml
from places import PORTS, RUN

from specbook import paths

GROUP = "/apis/external.metrics.k8s.io/v1beta1"
PERIOD_S = 2
DEPLOY = paths.root() / "deploy"


def targets(pods: list[dict], monitor: dict) -> list[dict]:
    """Prometheus' file_sd entries: the pods that a PodMonitor selects, labelled as its operator does."""
    spec = monitor["spec"]
    endpoint = spec["podMetricsEndpoints"][0]
    wanted = spec["selector"]["matchLabels"].items()
    chosen = [pod for pod in pods if wanted <= pod["metadata"].get("labels", {}).items()]
    alive = [
        pod
        for pod in chosen
        if pod["status"].get("podIP") and pod["status"]["phase"] in ("Pending", "Running")
    ]
    return [entry for pod in alive for entry in entries(pod, spec, endpoint["port"])]


def entries(pod: dict, spec: dict, port: str) -> list[dict]:
    """The entries of one pod: one for each container port of that name."""
    meta = pod["metadata"]
    labels = {"namespace": meta["namespace"], "pod": meta["name"], "job": meta["labels"][spec["jobLabel"]]}
    for name in spec.get("podTargetLabels", []):
        if value := meta["labels"].get(name):
            labels[re.sub(r"\W", "_", name)] = value
    return [
        {"targets": [f"{pod['status']['podIP']}:{each['containerPort']}"], "labels": labels | extra}
        for container in pod["spec"]["containers"]
        for each in container.get("ports", [])
        if each.get("name") == port
        for extra in [{"container": container["name"], "endpoint": port}]
    ]


def write_targets(kubeconfig: dict, monitor: dict) -> None:
    """Write the targets every two seconds; while the API server is away, they stay as they are."""
    api, access = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {access}"}
    verify = ssl.create_default_context(cafile=api["certificate-authority"])
    with httpx.Client(base_url=api["server"], headers=headers, verify=verify, trust_env=False) as client:
        while True:
            try:
                pods = client.get("/api/v1/pods").raise_for_status().json()["items"]
            except httpx.HTTPError as error:
                print(f"pods: {error}", flush=True)
            else:
                replace(RUN / "targets.json", json.dumps(targets(pods, monitor), indent=1))
            time.sleep(PERIOD_S)


def replace(file: Path, text: str) -> None:
    """Write a file in one step, and only if it changes: Prometheus reads it whenever it does."""
    if not file.is_file() or file.read_text() != text:
        file.with_suffix(".part").write_text(text)
        file.with_suffix(".part").rename(file)


def queries(config: dict) -> dict[str, str]:
    """External metric -> PromQL with NAMESPACE in it, from prometheus-adapter's own configuration."""
    result = {}
    for rule in config["externalRules"]:
        series = re.search(r'__name__="([^"]+)"', rule["seriesQuery"]).group(1)
        query = rule["metricsQuery"].replace("<<.Series>>", series)
        result[rule["name"]["as"]] = query.replace("<<.LabelMatchers>>", 'namespace="NAMESPACE"')
    return result


def value_list(metric: str, samples: list[dict], now: str) -> dict:
    """An ExternalMetricValueList; thousandths, as the API has no fractions. NaN is no value."""
    numbers = [(sample["metric"], float(sample["value"][1])) for sample in samples]
    items = [
        {"metricName": metric, "metricLabels": labels, "timestamp": now, "value": f"{round(1000 * number)}m"}
        for labels, number in numbers
        if math.isfinite(number)
    ]
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": GROUP.removeprefix("/apis/"),
        "metadata": {},
        "items": items,
    }


def resource_list(names: list[str]) -> dict:
    """What discovery of the API group answers."""
    kind = {"singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
    resources = [{"name": name, **kind} for name in names]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP.removeprefix("/apis/"),
        "resources": resources,
    }


def failure(code: int, message: str) -> tuple[int, dict]:
    """A Status, as Kubernetes' clients read it."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


class Adapter(BaseHTTPRequestHandler):
    """Answers discovery and values; only the API server calls it."""

    protocol_version = "HTTP/1.1"
    known = queries(yaml.safe_load((DEPLOY / "components/external-metrics-adapter/config.yaml").read_text()))

    def do_GET(self) -> None:
        """One answer in JSON."""
        code, body = self.answer(urlsplit(self.path).path.rstrip("/"))
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, path: str) -> tuple[int, dict]:
        """Status and body of one path."""
        if path == GROUP:
            return 200, resource_list(sorted(self.known))
        found = re.fullmatch(rf"{GROUP}/namespaces/([a-z0-9-]+)/([a-z0-9_]+)", path)
        if not found or found[2] not in self.known:
            return failure(404, f"no external metric at {path}; known are {', '.join(sorted(self.known))}")
        try:
            query = self.known[found[2]].replace("NAMESPACE", found[1])
            address = f"http://127.0.0.1:{PORTS['prometheus']}/api/v1/query"
            reply = httpx.get(address, params={"query": query}, timeout=5, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            return failure(503, f"Prometheus does not answer: {error}")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return 200, value_list(found[2], reply.json()["data"]["result"], now)

    def log_request(self, *_: object) -> None:
        """Silent: the autoscaler asks twice in 15 s."""


class Server(ThreadingHTTPServer):
    """HTTPS; the handshake runs in the connection's own thread, so that one silent client stops nobody."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", PORTS["adapter"]), Adapter)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(RUN / "adapter.crt", RUN / "adapter.key")
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


def main() -> None:
    """Serve until the process is ended."""
    monitor = yaml.safe_load((DEPLOY / "base/podmonitor.yaml").read_text())
    access = json.loads((RUN / "kubeconfig").read_text())
    threading.Thread(target=write_targets, args=(access, monitor), daemon=True).start()
    Server().serve_forever()


if __name__ == "__main__":
    main()
