"""`specbook deploy` against a real API server and controllers; pods are played (control_plane.Kubelet)."""

import csv
import itertools
import json
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from control_plane import READY, USERS, token
from deploy_fixtures import DEPLOY
from typer.testing import CliRunner

from specbook.cli.main import app
from specbook.deploy.kubectl import Kubectl
from specbook.errors import ClusterError

RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
NUMBERS = itertools.count()


def pod_spec(image, **more):
    container = {
        "name": "server", "image": image, "securityContext": RESTRICTED,
        "resources": {"limits": {"memory": "1Gi"}}, "ports": [{"containerPort": 8000, "protocol": "TCP"}],
    }  # fmt: skip
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "enableServiceLinks": False, "automountServiceAccountToken": False, "securityContext": context,
        "containers": [container], **more,
    }  # fmt: skip


def objects(namespace, image="server:1"):
    """One of each kind that the overlays have and an API server of 2021 knows as they are."""
    inside, labels = {"namespace": namespace}, {"app": "server"}
    policy = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(image)}
    fetch = {"template": {"spec": pod_spec(image, restartPolicy="Never")}, "backoffLimit": 0}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"} | inside, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "m"} | inside,
         "spec": claim},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"} | inside,
         "spec": policy},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"} | inside,
         "spec": {"selector": labels, "ports": [{"port": 80, "protocol": "TCP"}]}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "fetch"} | inside, "spec": fetch},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "server"} | inside,
         "spec": {"selector": {"matchLabels": labels}, "template": template}},
    ]  # fmt: skip


def kind(documents, name):
    return next(each for each in documents if each["kind"] == name)


class Deploy:
    """Runs `specbook deploy` on an overlay of a namespace of its own."""

    def __init__(self, folder, kubeconfig, namespace):
        self.folder, self.kubeconfig, self.namespace = folder, kubeconfig, namespace
        self.admin = Kubectl("admin", kubeconfig)
        self.write(objects(namespace))

    def write(self, documents):
        (self.folder / "kustomization.yaml").write_text("resources: [all.yaml]\n")
        (self.folder / "all.yaml").write_text(yaml.safe_dump_all(documents))

    def arguments(self, command, *more, user="admin"):
        where = (self.folder, "--kubeconfig", self.kubeconfig, "--context", user)
        return ["deploy", command, *map(str, (*where, *more))]

    def __call__(self, command, *more, user="admin", **options):
        result = CliRunner().invoke(app, self.arguments(command, *more, user=user), **options)
        assert not [user for user in USERS if token(user) in result.output]
        assert "Traceback" not in result.output
        return result

    def get(self, *arguments):
        return self.admin.get(*arguments, f"--namespace={self.namespace}")

    def kinds(self):
        return [
            o["kind"]
            for o in self.get("cm,pvc,netpol,svc,job,deploy")["items"]
            if o["metadata"]["name"] != "root"
        ]

    def image(self):
        return self.get("deployment", "server")["spec"]["template"]["spec"]["containers"][0]["image"]


def complaint(result, code=1):
    assert result.exit_code == code, result.output
    return result.stderr.partition("specbook:")[2]


@pytest.fixture
def deploy(tmp_path, control_plane, kubelet):
    return Deploy(tmp_path, control_plane, f"test-{next(NUMBERS)}")


# apply and diff


def test_apply_waits_for_its_job_then_for_its_pods(deploy):
    result = deploy("apply", "--yes")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("context admin  (https://127.0.0.1:")
    done = [line.split()[1] for line in lines if line.startswith("create")]
    assert done[0] == "Namespace"
    assert done[-2:] == ["Job", "Deployment"]
    assert lines.index("Job fetch: complete") < lines.index(f"create    Deployment {deploy.namespace}/server")
    assert "successfully rolled out" in lines[-1]


def test_applying_again_changes_nothing(deploy):
    deploy("apply", "--yes")
    result = deploy("apply")  # nothing to ask about either
    assert result.exit_code == 0, result.output
    assert "nothing to change" in result.stdout
    assert deploy("diff").stdout.splitlines()[1:] == ["nothing to change"]


def test_diff_shows_the_change_and_makes_none(deploy):
    deploy("apply", "--yes")
    documents = objects(deploy.namespace)
    kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] = "server:2"
    deploy.write(documents)
    result = deploy("diff")
    assert result.exit_code == 0, result.output
    assert re.search(r"^-.*image: server:1$\n^\+.*image: server:2$", result.stdout, re.MULTILINE)
    assert result.stdout.splitlines()[-1] == "1 to change"
    assert "generation" not in result.stdout
    assert deploy.image() == "server:1"


def test_diff_hides_secrets_but_shows_that_they_differ(deploy):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": deploy.namespace}}
    documents = objects(deploy.namespace)
    for word in ("b2xkLXdvcmQ=", "bmV3LXdvcmQ="):
        deploy.write([documents[0], secret | {"data": {"k": word}}])
        shown = deploy("diff")
        assert shown.exit_code == 0, shown.output
        applied = deploy("apply", "--yes", "--no-wait")
        assert applied.exit_code == 0, applied.output
        assert word not in shown.output + applied.output
        assert "-word" not in shown.output
    assert shown.stdout.count("<hidden") == 2


def test_what_an_autoscaler_set_is_left_alone(deploy):
    deploy("apply", "--yes")
    deploy.admin.run("scale", "deployment/server", f"--namespace={deploy.namespace}", "--replicas=3")
    assert "nothing to change" in deploy("diff").stdout


def test_without_a_terminal_nothing_is_changed_unless_told(deploy):
    said = complaint(deploy("apply"))
    assert "nothing was changed. To fix: to apply" in said
    assert "7 to create without asking, give --yes" in said
    with pytest.raises(ClusterError, match="not found"):
        deploy.admin.get("namespace", deploy.namespace)


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_at_a_terminal_the_context_is_named_and_asked_about(deploy, monkeypatch, answer, code):
    monkeypatch.setattr("specbook.deploy.commands._interactive", lambda: True)
    result = deploy("apply", "--no-wait", input=answer)
    assert "context admin" in result.stdout
    assert "7 to create?" in result.stdout
    assert result.exit_code == code
    assert bool(deploy.kinds()) == (code == 0)


def test_a_job_whose_template_changed_is_replaced(deploy):
    deploy("apply", "--yes")
    deploy.write(objects(deploy.namespace, image="server:2"))
    result = deploy("apply", "--yes")
    assert result.exit_code == 0, result.output
    assert f"replace   Job {deploy.namespace}/fetch" in result.stdout
    assert deploy.image() == "server:2"


# faults


def test_a_missing_right_is_found_before_anything_changes(deploy):
    said = complaint(deploy("apply", "--yes", user="stranger"))
    assert "nothing was changed" in said
    assert 'User "stranger" cannot' in said
    assert said.count("have an administrator grant deploy/rbac.yaml") == 1


def test_an_expired_login_is_named(deploy, tmp_path):
    expired = tmp_path / "expired"
    expired.write_text(deploy.kubeconfig.read_text().replace(token("admin"), "old"))
    said = complaint(deploy("diff", "--kubeconfig", expired))
    assert "To fix: log in again" in said


def test_missing_operators_are_all_named(deploy):
    monitors = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": deploy.namespace}}
        for version, kind in (
            ("monitoring.coreos.com/v1", "PodMonitor"),
            ("keda.sh/v1alpha1", "ScaledObject"),
        )
    ]
    for each in monitors:
        each["spec"] = {"selector": {"matchLabels": {"app": "server"}}, "podMetricsEndpoints": []}
        each["spec"]["scaleTargetRef"] = {"kind": "Deployment", "name": "server"}
    deploy.write([*objects(deploy.namespace), *monitors])
    said = complaint(deploy("apply", "--yes"))
    assert "does not know PodMonitor (monitoring.coreos.com/v1)" in said
    assert "does not know ScaledObject (keda.sh/v1alpha1)" in said
    assert "install the Prometheus operator" in said
    assert "install KEDA" in said
    assert deploy.kinds() == []


def test_fields_that_others_set_are_a_conflict_until_forced(deploy):
    deploy("apply", "--yes", "--no-wait")
    documents = objects(deploy.namespace)
    kind(documents, "ConfigMap")["data"]["a"] = "2"
    deploy.admin.apply([kind(documents, "ConfigMap")], "--field-manager=other", "--force-conflicts")
    said = complaint(deploy("apply", "--yes", "--no-wait"))
    assert 'conflict with "other"' in said
    assert "--force-conflicts" in said
    assert deploy("apply", "--yes", "--no-wait", "--force-conflicts").exit_code == 0
    assert deploy.get("cm", "c")["data"] == {"a": "1"}


def test_a_failed_job_stops_the_apply_until_later(deploy, kubelet):
    kubelet.says[deploy.namespace] = {"phase": "Failed"}
    said = complaint(deploy("apply", "--yes"))
    assert "backoff limit" in said
    assert f"kubectl --namespace={deploy.namespace} logs job/fetch" in said
    assert "6 of 7 objects are applied. To fix: apply again" in said
    assert "Deployment" not in deploy.kinds()
    kubelet.says.clear()
    result = deploy("apply", "--yes")
    assert result.exit_code == 0, result.output
    assert (result.stdout.count("replace "), result.stdout.count("create ")) == (1, 1)
    assert result.stdout.index("Job fetch: complete") < result.stdout.index("create ")


def test_ctrl_c_half_way_says_how_far_it_came(deploy, kubelet):
    kubelet.says[deploy.namespace] = {"phase": "Pending"}
    arguments = deploy.arguments("apply", "--yes")
    code = f"import sys; from specbook.cli.entry import main; sys.argv[1:] = {arguments}; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
    while "Job" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1)  # it waits for the Job
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "interrupted. 6 of 7 objects are applied" in said
    assert "Traceback" not in said


# wait


def test_a_pod_that_cannot_start_ends_the_wait_with_its_fix(deploy, kubelet):
    deploy("apply", "--yes", "--no-wait")
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image server:1"}
    status = {"name": "server", "state": {"waiting": waiting}, "ready": False, "restartCount": 0}
    status |= {"image": "server:1", "imageID": ""}
    kubelet.says[deploy.namespace] = {"phase": "Pending", "conditions": [], "containerStatuses": [status]}
    said = complaint(deploy("wait"))
    assert "it cannot end" in said
    assert "ImagePullBackOff: Back-off pulling image server:1. To fix: build and push the image" in said


def test_a_full_pool_is_said_and_waited_out(deploy, kubelet):
    deploy("apply", "--yes", "--no-wait")
    full = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "3 Insufficient gpu",
    }
    kubelet.says[deploy.namespace] = {"phase": "Pending", "conditions": [full]}
    said = complaint(deploy("wait", "--timeout", 3))
    assert "not done after 3 s" in said
    assert "Unschedulable: 3 Insufficient gpu" in said
    kubelet.says[deploy.namespace] = READY
    assert deploy("wait").exit_code == 0


def test_pods_that_a_quota_refuses_are_explained(deploy):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}
    metadata = {"metadata": {"name": "none", "namespace": deploy.namespace}}
    deploy.admin.apply([objects(deploy.namespace)[0], quota | metadata])
    deploy("apply", "--yes", "--no-wait")
    said = complaint(deploy("wait", "--timeout", 30))
    assert "Pods cannot be created" in said
    assert "To fix: raise the quota, or ask for less" in said


def test_past_its_deadline_is_no_rollout(deploy, kubelet):
    kubelet.says[deploy.namespace] = {"phase": "Pending", "conditions": []}
    documents = objects(deploy.namespace)
    kind(documents, "Deployment")["spec"]["progressDeadlineSeconds"] = 1
    deploy.write(documents)
    deploy("apply", "--yes", "--no-wait")
    assert "past its progress deadline" in complaint(deploy("wait", "--timeout", 30))


@pytest.mark.parametrize("command", ["wait", "watch", "rollback", "port-forward"])
def test_what_was_not_applied_says_so(deploy, command):
    said = complaint(deploy(command, *(["--yes"] if command == "rollback" else [])))
    assert "To fix: apply the overlay first" in said


# roll back, watch, port-forward, delete


def test_rollback_gives_the_earlier_template(deploy):
    deploy("apply", "--yes", "--no-wait")
    assert "no rollout history" in complaint(deploy("rollback", "--yes"))
    deploy.write(objects(deploy.namespace, image="server:2"))
    deploy("apply", "--yes")
    asked = complaint(deploy("rollback"))
    assert f"roll {deploy.namespace}/server back to the revision before (server:1)" in asked
    assert "unable to find specified revision 7" in complaint(deploy("rollback", "--to-revision", 7, "--yes"))
    assert deploy.image() == "server:2"
    result = deploy("rollback", "--yes")
    assert result.exit_code == 0, result.output
    assert "successfully rolled out" in result.stdout
    assert deploy.image() == "server:1"


def test_applying_over_a_rollback_is_asked_for(deploy):
    test_rollback_gives_the_earlier_template(deploy)
    assert "--force-conflicts takes these fields over" in complaint(deploy("apply", "--yes"))
    assert deploy("apply", "--yes", "--force-conflicts").exit_code == 0
    assert deploy.image() == "server:2"


def test_watch_writes_scaling_as_a_timeline(deploy, tmp_path):
    deploy("apply", "--yes")
    spec = {"minReplicas": 1, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "server"}}
    metadata = {"name": "server", "namespace": deploy.namespace}
    scaler = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata}
    deploy.admin.apply([scaler | {"spec": spec}])
    table = tmp_path / "timeline.csv"
    result = deploy("watch", "--duration", "1", "--every", "0.5", "--output", table)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(table.open()))
    assert {row["wanted"] + row["total"] + row["available"] + row["desired"] for row in rows} == {"1110"}
    assert len(rows) > 1
    assert "wanted 1 (autoscaler: 0)  serving 1  #" in result.stdout


def test_watch_without_a_right_says_so(deploy):
    deploy("apply", "--yes", "--no-wait")
    said = complaint(deploy("watch", user="stranger"))
    assert "deployments.apps" in said
    assert "grant deploy/rbac.yaml" in said


def test_port_forward_without_a_running_pod_says_so(deploy, kubelet):
    kubelet.says[deploy.namespace] = {"phase": "Pending"}
    deploy("apply", "--yes", "--no-wait")
    time.sleep(1)
    assert "pod is not running" in complaint(deploy("port-forward", "--port", 0))


def test_delete_keeps_cache_and_namespace(deploy):
    deploy("apply", "--yes")
    assert "give --yes" in complaint(deploy("delete"))
    result = deploy("delete", "--yes")
    assert result.exit_code == 0, result.output
    assert deploy.admin.get("namespace", deploy.namespace)["status"]["phase"] == "Active"
    deploy.admin.run("wait", "--for=delete", "deployment/server", f"--namespace={deploy.namespace}")
    assert "PersistentVolumeClaim" in deploy.kinds()
    again = deploy("delete", "--yes", "--everything")
    assert f"was gone  Deployment {deploy.namespace}/server" in again.stdout
    assert f"deleted   Namespace {deploy.namespace}" in again.stdout


# rights


def used(folder):
    """(resource, verb) of every request that a deployer made and that the server allowed."""
    events = map(json.loads, (folder / "audit.log").read_text().splitlines())
    mine = (e for e in events if e["user"].get("username") == "deployer" and "objectRef" in e)
    asked = (e for e in mine if e.get("responseStatus", {}).get("code") != 403)
    return {
        ("/".join(filter(None, (e["objectRef"]["resource"], e["objectRef"].get("subresource")))), e["verb"])
        for e in asked
    }


def test_the_documented_rights_are_enough_and_none_is_spare(tmp_path, control_plane, kubelet):
    """Every command runs with deploy/rbac.yaml; of the kinds that the overlay has, each right is needed."""
    deploy = Deploy(tmp_path, control_plane, "specbook")
    rights = list(yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()))
    deploy.admin.apply([objects("specbook")[0]])
    deploy.admin.apply(rights)
    for image in ("server:1", "server:2"):
        deploy.write(objects("specbook", image))
        result = deploy("apply", "--yes", user="deployer")
        assert result.exit_code == 0, result.output
    for command in (["diff"], ["wait"], ["watch", "--duration", 0], ["rollback", "--yes"]):
        result = deploy(*command, user="deployer")
        assert result.exit_code == 0, result.output
    deploy("port-forward", "--port", 0, user="deployer")  # no kubelet carries it, but the right is asked for
    result = deploy("delete", "--yes", "--everything", user="deployer")
    assert result.exit_code == 0, result.output
    granted = {
        (r, verb)
        for d in rights
        for rule in d.get("rules", [])
        for r in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = used(control_plane.parent)
    # The server asks for `create` where an object that is applied does not exist yet; its audit says patch.
    needed |= {(resource, "create") for resource, verb in needed if verb == "patch"}
    had = {resource for resource, _ in needed} - {"horizontalpodautoscalers"}  # only read: there is none here
    assert sorted(right for right in granted - needed if right[0] in had) == []
