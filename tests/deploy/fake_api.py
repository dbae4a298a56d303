"""An API server for tests, over real HTTP: discovery, storage, rights, dry runs, apply, and faults on demand.

It knows far less than a real one: apply replaces what the client sent and keeps what others own, nothing is
defaulted, and no controller runs; a test plays the controllers by putting objects and statuses into the
store. What the client *sends* (paths, verbs, parameters, bodies) is real, and is checked here.
"""

import copy
import hashlib
import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import fake_websocket
import yaml
from deploy_fixtures import DEPLOY

TOKEN = "a-token-that-must-not-be-shown"
CORE = {
    "v1": {
        "namespaces": ("Namespace", False),
        "configmaps": ("ConfigMap", True),
        "secrets": ("Secret", True),
        "services": ("Service", True),
        "serviceaccounts": ("ServiceAccount", True),
        "persistentvolumeclaims": ("PersistentVolumeClaim", True),
        "pods": ("Pod", True),
    },
    "apps/v1": {"deployments": ("Deployment", True), "replicasets": ("ReplicaSet", True)},
    "batch/v1": {"jobs": ("Job", True)},
    "autoscaling/v2": {"horizontalpodautoscalers": ("HorizontalPodAutoscaler", True)},
    "policy/v1": {"poddisruptionbudgets": ("PodDisruptionBudget", True)},
    "networking.k8s.io/v1": {"networkpolicies": ("NetworkPolicy", True)},
}
OPERATORS = {
    "monitoring.coreos.com/v1": {
        "podmonitors": ("PodMonitor", True),
        "prometheusrules": ("PrometheusRule", True),
    }
}


class RefusedError(Exception):
    """What becomes a Status with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class FakeApi:
    """The store and its rules; `url` is where it listens."""

    def __init__(self, operators: bool = True) -> None:
        self.kinds = CORE | (OPERATORS if operators else {})
        self.objects: dict[tuple, dict] = {}
        self.requests: list[tuple[str, str, dict]] = []
        """Verb, path and query of everything that was asked."""
        self.writes = 0
        self.faults: dict[tuple[str, str], RefusedError] = {}
        """(verb, plural) -> what is said instead."""
        self.cut_after_writes: int | None = None
        """The connection is closed instead of answering the write after this many."""
        self.rules: list[dict] | None = None
        """RBAC rules of the caller; None for an administrator."""
        self.used: set[tuple[str, str]] = set()
        """(plural, verb) of every right that was needed."""
        self.on_read: dict[tuple[str, str], list] = {}
        """(plural, name) -> functions, one of which changes the object before each read."""
        self.pod_server = None
        """(host, port) that port-forwarding reaches."""
        self._version = 0
        self.lock = threading.RLock()

    # rights

    def allow(self, verb: str, group: str, plural: str, name: str) -> None:
        if (verb, plural) in self.faults:
            raise self.faults[verb, plural]
        if self.rules is None:
            return
        for rule in self.rules:
            if group in rule["apiGroups"] and plural in rule["resources"] and verb in rule["verbs"]:
                self.used.add((plural, verb))
                return
        cannot = f'User "u" cannot {verb} resource "{plural}" in API group "{group}"'
        said = f'{plural} "{name}" is forbidden: {cannot}'
        raise RefusedError(403, said)

    # storage

    def put(self, document: dict) -> dict:
        """Store an object as a controller would."""
        document = copy.deepcopy(document)
        plural = self.plural(document["apiVersion"], document["kind"])
        metadata = document["metadata"]
        key = (document["apiVersion"], plural, metadata.get("namespace"), metadata["name"])
        self._version += 1
        old = self.objects.get(key, {}).get("metadata", {})
        uid = hashlib.md5(repr(key).encode()).hexdigest()
        metadata |= {"uid": uid, "resourceVersion": str(self._version)}
        metadata["generation"] = old.get("generation", 0) + 1
        self.objects[key] = document
        return document

    def plural(self, api_version: str, kind: str) -> str:
        return next(plural for plural, (name, _) in self.kinds[api_version].items() if name == kind)

    def of(self, kind: str) -> list[dict]:
        return [document for document in self.objects.values() if document["kind"] == kind]

    def one(self, kind: str) -> dict:
        (found,) = self.of(kind)
        return found

    def check_namespace(self, namespace: str | None) -> None:
        if namespace and ("v1", "namespaces", None, namespace) not in self.objects:
            raise RefusedError(404, f'namespaces "{namespace}" not found')

    def apply(self, key: tuple, body: dict, query: dict) -> dict:
        live = self.objects.get(key)
        self.check_namespace(key[2])
        if live and key[1] == "jobs" and live["spec"]["template"] != body["spec"]["template"]:
            raise RefusedError(422, f'Job.batch "{key[3]}" is invalid: spec.template: field is immutable')
        owners = (live or {}).get("metadata", {}).get("managedFields", [])
        foreign = [owner["manager"] for owner in owners if owner["manager"] != query["fieldManager"]]
        if foreign and query.get("force") != "true":
            raise RefusedError(409, f'Apply failed with 1 conflict: conflict with "{foreign[0]}": .spec')
        new = copy.deepcopy(body)
        if live:
            new["metadata"] = {**live["metadata"], **new["metadata"]}
            new |= {"status": live["status"]} if "status" in live else {}
            if key[1] == "deployments" and "replicas" in live["spec"]:
                new["spec"].setdefault("replicas", live["spec"]["replicas"])  # the autoscaler's
        return new

    def discovery(self, path: str) -> dict:
        if path == "/version":
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "groups": [self._group(v) for v in self.kinds if "/" in v]}
        api_version = path.removeprefix("/apis/").removeprefix("/api/")
        if api_version not in self.kinds:
            raise RefusedError(404, "the server could not find the requested resource")
        resources = [
            {"name": plural, "kind": kind, "namespaced": inside, "verbs": ["get", "list", "patch", "delete"]}
            for plural, (kind, inside) in self.kinds[api_version].items()
        ]
        return {"kind": "APIResourceList", "groupVersion": api_version, "resources": resources}

    @staticmethod
    def _group(api_version: str) -> dict:
        group, version = api_version.split("/")
        named = {"groupVersion": api_version, "version": version}
        return {"name": group, "versions": [named], "preferredVersion": named}


def parse(path: str) -> tuple[str, str, str | None, str | None, str | None]:
    """API version, plural, namespace, name, subresource."""
    parts = path.strip("/").split("/")
    api_version, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    namespace = None
    if rest and rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    rest = [*rest, None, None]
    return api_version, rest[0], namespace, rest[1], rest[2]


class Handler(BaseHTTPRequestHandler):
    """HTTP onto FakeApi."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two packets: the second would wait 40 ms
    api: FakeApi

    def log_message(self, *_):
        pass

    def handle_verb(self):
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = yaml.safe_load(self.rfile.read(length)) if length else None
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise RefusedError(401, "Unauthorized")
            with self.api.lock:
                answer = self.answer(url.path, query, body)
            if answer is not None:
                self.reply(200, answer)
        except RefusedError as refused:
            status = {"kind": "Status", "status": "Failure", "message": refused.message, "code": refused.code}
            self.reply(refused.code, status)

    do_GET = do_PATCH = do_DELETE = do_POST = handle_verb  # noqa: N815

    def reply(self, code, document):
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, path, query, body):
        api = self.api
        api.requests.append((self.command, path, query))
        if path in ("/version", "/api", "/apis", "/api/v1") or path.count("/") == 3:
            return api.discovery(path)
        api_version, plural, namespace, name, subresource = parse(path)
        key = (api_version, plural, namespace, name)
        group = api_version.rpartition("/")[0]
        if subresource:
            api.allow("get", group, f"{plural}/{subresource}", name)
            fake_websocket.port_forward(self, query, api.pod_server)
            return None
        if self.command == "GET":
            api.allow("get" if name else "list", group, plural, name)
            return self.read(key, query)
        return self.write(key, group, query, body)

    def read(self, key, query):
        api = self.api
        if key[3] is None:
            wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
            found = [
                document
                for (version, plural, namespace, _), document in api.objects.items()
                if (version, plural, namespace) == key[:3]
                and wanted.items() <= document["metadata"].get("labels", {}).items()
            ]
            return {"kind": "List", "apiVersion": key[0], "metadata": {}, "items": found}
        if key not in api.objects:
            raise RefusedError(404, f'{key[1]} "{key[3]}" not found')
        steps = api.on_read.get((key[1], key[3]))
        if steps:
            (steps.pop(0) if len(steps) > 1 else steps[0])(api.objects[key])
        return api.objects[key]

    def write(self, key, group, query, body):
        api = self.api
        verb = {"PATCH": "patch", "DELETE": "delete", "POST": "create"}[self.command]
        api.allow(verb, group, key[1], key[3])
        dry = query.get("dryRun") == "All"
        if not dry and api.cut_after_writes is not None and api.writes >= api.cut_after_writes:
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        api.writes += not dry
        if verb == "delete":
            if key not in api.objects:
                raise RefusedError(404, f'{key[1]} "{key[3]}" not found')
            if not dry:
                api.objects.pop(key)
            return {"kind": "Status", "status": "Success"}
        if self.headers["Content-Type"] == "application/json-patch+json":
            new = copy.deepcopy(api.objects[key])
            (operation,) = body
            assert (operation["op"], operation["path"]) == ("replace", "/spec/template")
            new["spec"]["template"] = operation["value"]
        else:
            assert self.headers["Content-Type"] == "application/apply-patch+yaml"
            if key not in api.objects:
                api.allow("create", group, key[1], key[3])
            new = api.apply(key, body, query)
        return new if dry else api.put(new)


@contextmanager
def serving(api: FakeApi):
    """The URL of an API server that answers while the block lasts."""
    handler = type("Bound", (Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(url: str, token: str = TOKEN) -> dict:
    """A kubeconfig with two contexts for one server; `kind-test` is the current one."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("kind-test", "production")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kind-test",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": contexts,
    }


def deployer_rules() -> list[dict]:
    """The rules of deploy/rbac.yaml."""
    documents = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
    return [rule for document in documents for rule in document.get("rules", [])]
