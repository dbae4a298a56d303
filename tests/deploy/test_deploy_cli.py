"""`specbook deploy` against an API server: what it asks, what it changes, what it says when that fails."""

import copy
import functools
import http.server
import re
import shutil
import socket
import threading
import urllib.request

import pytest
import yaml
from deploy_fixtures import DEPLOY, manifests, rendered
from fake_api import TOKEN, FakeApi, RefusedError, deployer_rules, kubeconfig, serving
from typer.testing import CliRunner

from specbook.cli import app
from specbook.deploy import redact, render, wait
from specbook.deploy.cluster import connect
from specbook.deploy.forward import forwarded

SERVED = {"observedGeneration": 99, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
LABELS = {"app.kubernetes.io/name": "specbook", "app.kubernetes.io/component": "server"}


@pytest.fixture
def api():
    return FakeApi()


@pytest.fixture
def deploy(api, tmp_path, monkeypatch):
    """Runs `specbook deploy ...` against the server, a deployer with the rights of deploy/rbac.yaml."""
    api.rules = deployer_rules()
    monkeypatch.setattr(render, "render", lambda folder: copy.deepcopy(rendered(folder)))
    for follow in (wait.wait, wait.wait_for_job):
        monkeypatch.setattr(follow, "__defaults__", (0.01,))
    with serving(api) as url:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(url)))
        monkeypatch.setenv("KUBECONFIG", str(path))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))

        def run(*arguments):
            result = CliRunner().invoke(app, ["deploy", *map(str, arguments)])
            assert TOKEN not in result.output
            assert "Traceback" not in result.output
            return result

        run.kubeconfig = path
        yield run


def complaint(result):
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("specbook:")]
    return line


def becomes_ready(api, name="specbook-server"):
    """The Deployment's controller: at the next look all pods serve."""

    def ready(deployment):
        deployment["status"] = dict(SERVED)

    api.on_read["deployments", name] = [ready]


def play_rollout(api, *statuses, pods=()):
    """A Deployment with its ReplicaSets and pods; each look shows the next status."""
    documents = [d for d in manifests("cpu") if d["kind"] in ("Namespace", "Deployment", "Service")]
    for document in documents:
        stored = api.put(document)
    deployment = api.one("Deployment")
    template = deployment["spec"]["template"]
    for number, digest in ((1, "old"), (2, "new")):
        replica_set = yaml.safe_load(yaml.safe_dump(template))
        replica_set["metadata"]["labels"]["pod-template-hash"] = digest
        replica_set["spec"]["containers"][0]["image"] = f"specbook-cpu:0.{number}.0"
        api.put(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"specbook-server-{digest}",
                    "namespace": "specbook",
                    "labels": replica_set["metadata"]["labels"],
                    "annotations": {"deployment.kubernetes.io/revision": str(number)},
                    "ownerReferences": [{"uid": deployment["metadata"]["uid"]}],
                },
                "spec": {"template": replica_set},
            }
        )
    for pod in pods:
        api.put(pod)
    api.on_read["deployments", "specbook-server"] = [
        functools.partial(lambda status, d: d.update(status=dict(status)), status) for status in statuses
    ]
    return stored


def pod(name, digest="new", **status):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "specbook",
            "labels": LABELS | {"pod-template-hash": digest},
        },
        "spec": {"containers": [{"name": "server", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": status,
    }


def waiting(reason, message, **more):
    return [{"name": "server", "state": {"waiting": {"reason": reason, "message": message}}, **more}]


# render, check, diff: nothing is asked of anybody, or nothing is changed


def test_render_prints_what_kustomize_builds(deploy, api):
    result = deploy("render", "cpu")
    assert list(yaml.safe_load_all(result.stdout)) == manifests("cpu")
    assert api.requests == []


def test_an_overlay_that_does_not_exist_is_named(deploy):
    assert "no overlay 'cpuu' (did you mean 'cpu'?)" in complaint(deploy("render", "cpuu"))


def test_a_broken_kustomization_is_quoted(deploy, tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    assert "kustomize refuses" in complaint(deploy("render", tmp_path))


def test_check_lists_what_to_mend(deploy, api, unpinned):
    result = deploy("check", unpinned)
    assert result.exit_code == 1
    assert result.stderr.count("mend:") == 2
    assert "TARGET_REVISION is 'set-the-commit'" in result.stderr
    assert deploy("check", "cpu").exit_code == 0
    assert api.requests == []


def test_diff_shows_the_change_and_makes_none(deploy, api):
    deploy("apply", "cpu", "--yes", "--no-wait")
    api.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] = "specbook-cpu:0.0.9"
    writes = api.writes
    result = deploy("diff", "cpu")
    assert result.exit_code == 0, result.output
    assert "-        image: specbook-cpu:0.0.9\n+        image: specbook-cpu:0.1.0" in result.stdout
    assert "1 to change" in result.stdout
    assert api.writes == writes


def test_diff_hides_secrets_but_shows_that_they_differ(deploy, api, tmp_path):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "specbook"}}
    api.rules = None
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "specbook"}})
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": "old-password"}
    live = secret | {
        "metadata": secret["metadata"] | {"annotations": annotation},
        "data": {"k": "old-password"},
    }
    api.put(live)
    (tmp_path / "secret.yaml").write_text(yaml.safe_dump(secret | {"stringData": {"k": "new-password"}}))
    (tmp_path / "kustomization.yaml").write_text("resources: [secret.yaml]\n")
    for command in ("diff", "render"):
        result = deploy(command, tmp_path)
        assert "password" not in result.output
        assert "<hidden" in result.stdout
    applied = deploy("apply", tmp_path, "--yes", "--no-wait")
    assert "password" not in applied.output
    assert api.one("Secret")["stringData"] == {"k": "new-password"}


def test_variables_that_sound_like_secrets_are_hidden():
    env = [
        {"name": "HF_TOKEN", "value": "abc"},
        {"name": "MAX_TOKENS", "value": "7"},
        {"name": "K", "value": ""},
    ]
    token, tokens, _ = redact.shown({"spec": {"containers": [{"env": env}]}})["spec"]["containers"][0]["env"]
    assert token["value"] == redact.hidden("abc")
    assert "abc" not in token["value"]
    assert tokens["value"] == "7"


# apply


def test_apply_tries_all_then_applies_all_and_waits(deploy, api):
    becomes_ready(api)
    result = deploy("apply", "cpu", "--yes")
    assert result.exit_code == 0, result.output
    assert "context kind-test" in result.stdout
    assert {document["kind"] for document in api.objects.values()} == {d["kind"] for d in manifests("cpu")}
    patches = [query for verb, _, query in api.requests if verb == "PATCH"]
    assert all(query["fieldManager"] == "specbook" for query in patches)
    dry = [query.get("dryRun") == "All" for query in patches]
    assert dry == sorted(dry, reverse=True)  # every dry run comes before the first change
    assert dry.count(True) == dry.count(False) == len(manifests("cpu"))
    assert "1 of 1 pods are new, 1 serve" in result.stdout


def test_the_namespace_comes_first_and_the_deployment_after_what_it_needs(deploy, api):
    deploy("apply", "cpu", "--yes", "--no-wait")
    applied = [path for verb, path, query in api.requests if verb == "PATCH" and "dryRun" not in query]
    assert applied[0] == "/api/v1/namespaces/specbook"
    assert applied[-1].endswith("/deployments/specbook-server")


def test_applying_again_changes_nothing(deploy, api):
    becomes_ready(api)
    deploy("apply", "cpu", "--yes")
    writes = api.writes
    result = deploy("apply", "cpu")  # nothing to ask about either
    assert result.exit_code == 0, result.output
    assert "nothing to change" in result.stdout
    assert api.writes == writes


def test_what_the_autoscaler_set_is_left_alone(deploy, api):
    deploy("apply", "cpu", "--yes", "--no-wait")
    api.one("Deployment")["spec"]["replicas"] = 3
    assert "replicas" not in deploy("diff", "cpu").stdout
    deploy("apply", "cpu", "--yes", "--no-wait")
    assert api.one("Deployment")["spec"]["replicas"] == 3


def test_without_a_terminal_nothing_is_changed_unless_told(deploy, api):
    said = complaint(deploy("apply", "cpu"))
    assert "nothing was changed" in said
    assert "'kind-test'" in said
    assert "--yes" in said
    assert api.writes == 0


@pytest.mark.parametrize(("answer", "writes"), [("n\n", False), ("y\n", True)])
def test_at_a_terminal_the_context_is_named_and_asked_about(deploy, api, monkeypatch, answer, writes):
    monkeypatch.setattr("specbook.deploy.cli._interactive", lambda: True)
    result = CliRunner().invoke(
        app, ["deploy", "apply", "cpu", "--no-wait", "--context", "production"], input=answer
    )
    assert "context production" in result.stdout
    assert "apply cpu: 6 to create?" in result.stdout
    assert bool(api.writes) == writes


def test_what_would_lose_requests_is_not_applied(deploy, api, unpinned):
    result = deploy("apply", unpinned, "--yes")
    assert "2 things to mend first" in complaint(result)
    assert api.writes == 0


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    """overlays/gpu, as a user's own overlay."""
    folder = tmp_path_factory.mktemp("gpu")
    shutil.copytree(DEPLOY, folder / "deploy")
    return folder / "deploy" / "overlays" / "gpu"


@pytest.fixture(scope="module")
def unpinned(tmp_path_factory):
    """overlays/gpu without the commits."""
    folder = tmp_path_factory.mktemp("unpinned")
    shutil.copytree(DEPLOY, folder / "deploy")
    env = folder / "deploy" / "base" / "models.env"
    env.write_text(re.sub(r"(?m)^(\w+_(?:REVISION|FOR))=.*$", r"\1=set-the-commit", env.read_text()))
    return folder / "deploy" / "overlays" / "gpu"


def test_a_gpu_service_waits_for_its_weights_before_its_pods(deploy, api, gpu):
    becomes_ready(api)

    def complete(job):
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    api.on_read["jobs", "specbook-fetch"] = [lambda job: None, complete]
    result = deploy("apply", gpu, "--yes")
    assert result.exit_code == 0, result.output
    assert "specbook-fetch: complete" in result.stdout
    order = [
        path.rsplit("/", 1)[-1] for verb, path, q in api.requests if verb == "PATCH" and "dryRun" not in q
    ]
    assert order.index("specbook-fetch") < order.index("specbook-server", order.index("specbook-fetch"))
    assert {"PodMonitor", "PrometheusRule", "HorizontalPodAutoscaler"} <= {
        o["kind"] for o in api.objects.values()
    }


def test_a_job_that_fails_stops_the_apply_and_names_its_log(deploy, api, gpu):
    failed = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    api.on_read["jobs", "specbook-fetch"] = [lambda job: job.update(status={"conditions": [failed]})]
    said = complaint(deploy("apply", gpu, "--yes"))
    assert "backoff limit" in said
    assert "logs job/specbook-fetch" in said
    assert "apply again" in said
    assert not api.of("Deployment")


def test_a_job_whose_template_changed_is_replaced(deploy, api, gpu):
    assert deploy("apply", gpu, "--yes", "--no-wait").exit_code == 0
    api.one("Job")["spec"]["template"]["spec"]["containers"][0]["image"] = "specbook-cuda:0.0.9"
    result = deploy("apply", gpu, "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert "replace   Job specbook/specbook-fetch" in result.stdout
    assert api.one("Job")["spec"]["template"]["spec"]["containers"][0]["image"] == "specbook-cuda:0.1.0"


# faults


def test_no_kubeconfig_says_how_to_get_one(deploy, api, tmp_path, monkeypatch):
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    said = complaint(deploy("apply", "cpu", "--yes"))
    assert "no usable kubeconfig" in said
    assert "kind create cluster" in said
    assert api.requests == []


def test_a_kubeconfig_that_is_no_kubeconfig_is_refused(deploy, tmp_path):
    for number, text in enumerate((b"", b"[1, 2]", b"a: {b", b"contexts: []\n", b"\xff\xfe\xff")):
        path = tmp_path / f"bad-{number}"
        path.write_bytes(text)
        assert "no usable kubeconfig" in complaint(deploy("diff", "cpu", "--kubeconfig", path))
    assert "no usable kubeconfig" in complaint(deploy("diff", "cpu", "--kubeconfig", tmp_path))


def test_a_wrong_context_is_named_with_its_neighbour(deploy, api):
    said = complaint(deploy("apply", "cpu", "--yes", "--context", "prodction"))
    assert "no context 'prodction' in the kubeconfig (did you mean 'production'?)" in said
    assert api.requests == []


def test_an_expired_login_is_told(deploy, api):
    deploy.kubeconfig.write_text(deploy.kubeconfig.read_text().replace(TOKEN, "expired"))
    assert "does not know you (401): log in again" in complaint(deploy("diff", "cpu"))


def test_a_cluster_that_does_not_answer_is_told(deploy, tmp_path):
    path = tmp_path / "dead"
    path.write_text(yaml.safe_dump(kubeconfig("http://127.0.0.1:9")))
    said = complaint(deploy("diff", "cpu", "--kubeconfig", path))
    assert "cannot reach the cluster 'kind-test' at http://127.0.0.1:9: no answer" in said


@pytest.mark.parametrize("lost", ["deployments", "namespaces", "networkpolicies"])
def test_a_missing_right_is_found_before_anything_changes(deploy, api, lost):
    api.rules = [rule for rule in deployer_rules() if lost not in rule["resources"]]
    said = complaint(deploy("apply", "cpu", "--yes"))
    assert "is forbidden" in said
    assert "deploy/rbac.yaml" in said
    assert api.writes == 0


def test_missing_operators_are_all_named_and_nothing_is_changed(deploy, api, gpu):
    api.kinds = {version: kinds for version, kinds in api.kinds.items() if "monitoring" not in version}
    said = complaint(deploy("apply", gpu, "--yes"))
    assert "nothing was changed" in said
    assert "does not know PodMonitor" in said
    assert "does not know PrometheusRule" in said
    assert "install the Prometheus operator" in said
    assert api.writes == 0


def test_without_keda_its_overlay_changes_nothing(deploy, api, gpu):
    said = complaint(deploy("apply", gpu.with_name("keda"), "--yes"))
    assert "does not know ScaledObject (keda.sh/v1alpha1): install KEDA, or apply overlays/gpu" in said
    assert "does not know InterceptorRoute" in said
    assert api.writes == 0


def test_a_quota_is_no_missing_right(deploy, api):
    api.faults["patch", "services"] = RefusedError(
        403, 'services "s" is forbidden: exceeded quota: q, used: services=5'
    )
    said = complaint(deploy("apply", "cpu", "--yes"))
    assert "exceeded quota" in said
    assert "Raise the quota" in said
    assert "rbac" not in said
    assert api.writes == 0


def test_fields_that_others_set_are_a_conflict_until_forced(deploy, api):
    deploy("apply", "cpu", "--yes", "--no-wait")
    api.one("Service")["metadata"]["managedFields"] = [{"manager": "kubectl-client-side-apply"}]
    said = complaint(deploy("apply", "cpu", "--yes"))
    assert 'conflict with "kubectl-client-side-apply"' in said
    assert "--force-conflicts" in said
    assert deploy("apply", "cpu", "--yes", "--no-wait", "--force-conflicts").exit_code == 0


def test_an_apply_cut_off_half_way_goes_on_from_there(deploy, api):
    api.cut_after_writes = 3
    said = complaint(deploy("apply", "cpu", "--yes", "--no-wait"))
    assert "3 of 6 objects are on" in said
    assert "apply again" in said
    assert len(api.objects) == 3
    api.cut_after_writes = None
    result = deploy("apply", "cpu", "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("create ") == 3
    assert len(api.objects) == 6


def test_ctrl_c_half_way_says_how_far_it_came(deploy, api, monkeypatch):
    from specbook.deploy import apply as applying

    real, sent = applying._send, []

    def interrupted(*arguments, **named):
        sent.append(named.get("dry_run"))
        if sent.count(None) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(applying, "_send", interrupted)
    assert "interrupted. 2 of 6 objects are on" in complaint(deploy("apply", "cpu", "--yes", "--no-wait"))


# wait


def test_wait_reports_progress_once_each(deploy, api):
    going = {"observedGeneration": 99, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}
    play_rollout(api, {}, going, going, going, SERVED)
    result = deploy("wait")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "0 of 1 pods are new, 0 serve",
        "1 of 1 pods are new, 1 serve, 1 old to go",
        "1 of 1 pods are new, 1 serve",
    ]


def test_an_old_generations_status_is_not_taken_for_the_new_ones(deploy, api):
    play_rollout(api, SERVED | {"observedGeneration": 0}, SERVED | {"observedGeneration": 0}, SERVED)
    deploy("wait")
    looks = [path for verb, path, _ in api.requests if path.endswith("/deployments/specbook-server")]
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"containerStatuses": waiting("ImagePullBackOff", 'Back-off pulling image "specbook-cpu:0.1.0"')},
            ["new-1: ImagePullBackOff", "specbook-cpu:0.1.0", "kind load docker-image"],
        ),
        (
            {
                "containerStatuses": waiting(
                    "CreateContainerConfigError", 'secret "specbook-api-key" not found'
                )
            },
            ['secret "specbook-api-key" not found', "secret.example.yaml"],
        ),
        (
            {
                "containerStatuses": waiting(
                    "CrashLoopBackOff",
                    "back-off 10s",
                    lastState={
                        "terminated": {"exitCode": 1, "reason": "Error", "message": "a\nno such model\n"}
                    },
                )
            },
            ["server ended with Error, exit 1: no such model", "kubectl logs --previous"],
        ),
        (
            {"initContainerStatuses": waiting("InvalidImageName", "couldn't parse image")},
            ["InvalidImageName", "mend `images`"],
        ),
    ],
)
def test_a_pod_that_cannot_start_ends_the_wait_with_its_mend(deploy, api, status, words):
    play_rollout(api, {"observedGeneration": 99, "replicas": 1}, pods=[pod("new-1", **status)])
    said = complaint(deploy("wait"))
    assert "the rollout cannot end" in said
    assert all(word in said for word in words), said


def test_an_old_pods_trouble_is_not_the_new_ones(deploy, api):
    crashed = pod("old-1", digest="old", containerStatuses=waiting("CrashLoopBackOff", "back-off"))
    play_rollout(api, {"observedGeneration": 99}, SERVED, pods=[crashed])
    assert deploy("wait").exit_code == 0


def test_a_full_pool_is_said_and_waited_out(deploy, api):
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
    }
    play_rollout(api, {"observedGeneration": 99}, SERVED, pods=[pod("new-1", conditions=[unschedulable])])
    result = deploy("wait")
    assert result.exit_code == 0, result.output
    assert "Insufficient nvidia.com/gpu" in result.stdout


def test_a_quota_on_pods_is_told(deploy, api):
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "pods is forbidden: exceeded quota: gpus",
    }
    play_rollout(api, {"observedGeneration": 99, "conditions": [failure]})
    said = complaint(deploy("wait"))
    assert "pods cannot be created" in said
    assert "raise the quota" in said


def test_past_its_deadline_and_out_of_time_are_told_apart(deploy, api):
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    play_rollout(api, {"observedGeneration": 99, "conditions": [late]})
    assert "is past its progress deadline (0 of 1 pods are new, 0 serve)" in complaint(deploy("wait"))
    api.on_read.clear()
    api.one("Deployment")["status"] = {"observedGeneration": 99}
    assert "is not done after 1 s" in complaint(deploy("wait", "--timeout", "1"))


def test_waiting_for_nothing_says_so(deploy):
    assert "no Deployment specbook/specbook-server on 'kind-test': apply an overlay first" in complaint(
        deploy("wait")
    )


# roll back, watch, delete, port-forward


def test_rollback_gives_the_earlier_template_and_keeps_replicas(deploy, api):
    play_rollout(api, SERVED)
    api.one("Deployment")["spec"]["replicas"] = 1
    result = deploy("rollback", "--yes")
    assert result.exit_code == 0, result.output
    now = api.one("Deployment")["spec"]
    assert now["template"]["spec"]["containers"][0]["image"] == "specbook-cpu:0.1.0"
    assert "pod-template-hash" not in now["template"]["metadata"]["labels"]
    assert now["replicas"] == 1
    dry = [query.get("dryRun") for verb, _, query in api.requests if verb == "PATCH"]
    assert dry == ["All", None]


def test_rollback_asks_first_and_knows_what_was_kept(deploy, api):
    play_rollout(api, SERVED)
    assert "roll specbook/specbook-server back to revision 1 (specbook-cpu:0.1.0)" in complaint(
        deploy("rollback")
    )
    assert "has not kept revision 7 (kept: 1)" in complaint(deploy("rollback", "--to-revision", 7, "--yes"))
    assert not [verb for verb, _, _ in api.requests if verb == "PATCH"]


class Clock:
    """Time that only sleeping lets pass."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_watch_shows_scaling_as_a_timeline(deploy, api, tmp_path, monkeypatch):
    monkeypatch.setattr("specbook.deploy.watch.time", Clock())
    play_rollout(api, SERVED, SERVED | {"replicas": 3}, SERVED | {"replicas": 3, "availableReplicas": 3})
    (scaler,) = [d for d in manifests("gpu") if d["kind"] == "HorizontalPodAutoscaler"]
    current = {"metric": {"name": "specbook_queue_wait_ms"}, "current": {"value": "1500m"}}
    scaler["status"] = {"desiredReplicas": 3, "currentMetrics": [{"type": "External", "external": current}]}
    api.put(scaler)
    table = tmp_path / "timeline.csv"
    result = deploy("watch", "--duration", "10", "--every", "5", "--output", table)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split(" s ")[0].strip() for line in lines] == ["0", "5", "10"]
    assert "serving 1  #.." in lines[1]
    assert "serving 3  ###" in lines[2]
    assert "(autoscaler: 3)" in lines[0]
    assert "specbook_queue_time_p95_ms unknown" in lines[0]
    header, first, *_ = table.read_text().splitlines()
    assert header == "at_s,wanted,total,available,desired,specbook_queue_wait_ms,specbook_queue_time_p95_ms"
    assert first == "0.0,1,1,1,3,1.5,"


def test_delete_keeps_the_cache_and_the_namespace_unless_told(deploy, api, gpu):
    deploy("apply", gpu, "--yes", "--no-wait")
    assert "--yes" in complaint(deploy("delete", gpu))
    result = deploy("delete", gpu, "--yes")
    assert result.exit_code == 0, result.output
    assert {document["kind"] for document in api.objects.values()} == {"Namespace", "PersistentVolumeClaim"}
    again = deploy("delete", gpu, "--yes", "--everything")
    assert "was gone  Deployment specbook/specbook-server" in again.stdout
    assert api.objects == {}


class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        body = self.path.encode() * 5000
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def pod_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address
    server.shutdown()
    server.server_close()


READY = [{"type": "Ready", "status": "True"}]


def test_port_forward_carries_requests_until_ctrl_c(deploy, api, pod_server, monkeypatch):
    play_rollout(api, SERVED, pods=[pod("loading"), pod("new-1", conditions=READY)])
    api.pod_server = pod_server
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def ask_then_interrupt(_):
        for word in ("one", "two"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{word}", timeout=10) as answer:
                assert answer.read() == f"/{word}".encode() * 5000
        raise KeyboardInterrupt

    monkeypatch.setattr("specbook.deploy.cli.time.sleep", ask_then_interrupt)
    result = deploy("port-forward", "--port", port)
    assert result.exit_code == 130, result.output
    assert f"http://127.0.0.1:{port}/v1 -> kind-test specbook/specbook-server" in result.stdout
    assert "no longer forwarding" in result.stderr
    assert len([path for _, path, _ in api.requests if path.endswith("/pods/new-1/portforward")]) == 2


def test_port_forward_says_when_no_pod_is_ready(deploy, api):
    play_rollout(api, SERVED, pods=[pod("loading")])
    assert "none of 1 pods of specbook-server is ready" in complaint(deploy("port-forward", "--port", 0))


def test_a_taken_port_is_told(deploy, api, pod_server):
    play_rollout(api, SERVED, pods=[pod("new-1", conditions=READY)])
    said = complaint(deploy("port-forward", "--port", pod_server[1]))
    assert f"cannot listen on 127.0.0.1:{pod_server[1]}" in said


# rights


def test_the_documented_rights_are_enough_and_none_is_spare(deploy, api, gpu, pod_server):
    """Every command runs with deploy/rbac.yaml; on the kinds of overlays/gpu each of its rights is needed."""
    granted = {(plural, verb) for r in deployer_rules() for plural in r["resources"] for verb in r["verbs"]}
    assert not [plural for plural, _ in granted if plural in ("secrets", "*")]
    assert deploy("apply", gpu, "--yes", "--no-wait").exit_code == 0
    play_rollout(api, SERVED, pods=[pod("new-1", conditions=READY)])
    for command in (["diff", gpu], ["wait"], ["watch", "--duration", 0], ["rollback", "--yes"]):
        assert deploy(*command).exit_code == 0
    with connect("kind-test") as cluster:
        api.pod_server = pod_server
        with forwarded(cluster, "specbook", "specbook-server", 0, print) as port:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).close()
    assert deploy("delete", gpu, "--yes", "--everything").exit_code == 0
    elsewhere = {"resourceclaimtemplates", "scaledobjects", "interceptorroutes", "leaderworkersets"}
    spare = {(plural, verb) for plural, verb in granted - api.used if plural not in elsewhere}
    assert spare == {("pods/portforward", "create")}  # asked for by some servers
