"""`specbook deploy` without a cluster: what it prints, refuses, and says when kubectl fails."""

import json
import re
import shutil

import pytest
import yaml
from control_plane import kubeconfig, token
from deploy_fixtures import DEPLOY, manifests
from typer.testing import CliRunner

from specbook.cli.main import app
from specbook.deploy import apply, kubectl
from specbook.deploy.kubectl import Kubectl, KubectlError, explain
from specbook.deploy.manifests import hidden, printable
from specbook.deploy.rollout import (
    Sample,
    autoscaler_metrics,
    newest,
    refused,
    troubles,
    write_timeline,
)
from specbook.errors import ConfigError


def deploy(*arguments, **options):
    """Runs `specbook deploy ...`; no output may hold a token or be a traceback."""
    result = CliRunner().invoke(app, ["deploy", *map(str, arguments)], **options)
    assert token("deployer") not in result.output
    assert "Traceback" not in result.output
    return result


def complaint(result):
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("specbook:")]
    return line


@pytest.fixture(scope="module")
def unpinned(tmp_path_factory):
    """overlays/gpu without the commits."""
    folder = tmp_path_factory.mktemp("unpinned")
    shutil.copytree(DEPLOY, folder / "deploy")
    env = folder / "deploy" / "base" / "models.env"
    env.write_text(re.sub(r"(?m)^(\w+_(?:REVISION|FOR))=.*$", r"\1=set-the-commit", env.read_text()))
    return folder / "deploy" / "overlays" / "gpu"


# render and check


def test_render_prints_what_kustomize_builds():
    assert list(yaml.safe_load_all(deploy("render", "cpu").stdout)) == manifests("cpu")


def test_an_overlay_that_does_not_exist_is_named():
    assert "no overlay 'cpuu' (did you mean 'cpu'?)" in complaint(deploy("render", "cpuu"))


@pytest.mark.parametrize("command", ["check", "apply", "wait", "watch", "rollback", "delete", "port-forward"])
def test_a_name_too_long_for_a_file_is_no_overlay(command):
    assert "no overlay 'xxx" in complaint(deploy(command, "x" * 5000))


def test_a_broken_kustomization_is_quoted(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    assert "kustomize refuses" in complaint(deploy("render", tmp_path))


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
def test_every_name_of_a_kustomization_is_found(tmp_path, name):
    (tmp_path / name).write_text("resources: [a.yaml]\n")
    (tmp_path / "a.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
    assert "name: a" in deploy("render", tmp_path).stdout


def test_a_field_that_no_kubectl_knows_is_named(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("componentz: [nowhere]\n")
    said = complaint(deploy("render", tmp_path))
    assert 'unknown field "componentz"' in said
    assert "oldest that was tried" not in said


# kubectl as people have it


@pytest.fixture
def own_kubectl(tmp_path, monkeypatch):
    """Puts a program of these bytes in kubectl's place."""

    def put(text: str, mode: int = 0o755):
        (tmp_path / "kubectl").write_text(text)
        (tmp_path / "kubectl").chmod(mode)
        monkeypatch.setattr(kubectl, "program", lambda: str(tmp_path / "kubectl"))

    return put


def of_release(minor: str, refuses: str) -> str:
    """A kubectl 1.`minor` that says nothing but its version, and otherwise refuses."""
    version = f'echo \'{{"clientVersion": {{"major": "1", "minor": "{minor}"}}}}\''
    return f"#!/bin/sh\n[ $1 = version ] && {version} && exit\necho 'error: {refuses}' >&2\nexit 1\n"


@pytest.mark.parametrize(("minor", "older"), [("20", True), ("26+", True), ("27", False), ("37+", False)])
def test_a_kubectl_too_old_for_the_overlays_is_named(own_kubectl, minor, older):
    own_kubectl(of_release(minor, 'json: unknown field "components"'))
    said = complaint(deploy("render", "cpu"))
    assert 'unknown field "components"' in said
    assert ("1.27 is the oldest that was tried: `make setup`" in said) is older


@pytest.mark.parametrize(("minor", "older"), [("17", True), ("37", False)])
@pytest.mark.parametrize("unknown", ["unknown flag: --server-side", 'unknown command "diff" for "kubectl"'])
def test_a_flag_that_kubectl_lacks_asks_for_a_newer(own_kubectl, minor, older, unknown):
    own_kubectl(of_release(minor, unknown))
    with pytest.raises(KubectlError) as error:
        Kubectl().run("diff", "--server-side")
    assert ("1.27 is the oldest that was tried" in str(error.value)) is older


def test_a_kubectl_that_says_nothing_is_one_line(own_kubectl):
    own_kubectl("#!/bin/sh\nexit 1\n")
    assert "it gives no reason" in complaint(deploy("render", "cpu"))


@pytest.mark.parametrize(
    ("text", "mode", "why"), [("\x7fELF of another machine", 0o755, "Exec format"), ("", 0o644, "Permission")]
)
def test_a_kubectl_that_cannot_run_is_named(own_kubectl, text, mode, why):
    own_kubectl(text, mode)
    said = complaint(deploy("render", "cpu"))
    assert f"kubectl cannot be run ({why}" in said
    assert said.endswith("To fix: `make setup` installs kubectl beside Python")


def test_without_kubectl_the_fix_is_said(monkeypatch):
    monkeypatch.setattr(kubectl.Path, "is_file", lambda path: path.name != "kubectl")
    monkeypatch.setattr(kubectl.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match=r"kubectl is missing\. To fix: `make setup`"):
        kubectl.program()


def test_check_lists_what_to_fix(unpinned):
    result = deploy("check", unpinned)
    assert result.exit_code == 1
    assert result.stderr.count("to fix:") == 2
    assert "TARGET_REVISION is 'set-the-commit'" in result.stderr
    assert deploy("check", "cpu").exit_code == 0


def test_what_would_lose_requests_is_not_applied(unpinned):
    assert "2 things to fix first" in complaint(deploy("apply", unpinned, "--yes"))


def test_an_overlay_without_a_deployment_is_not_waited_for(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    (tmp_path / "a.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
    for command in ("wait", "watch", "rollback", "port-forward"):
        assert "has no Deployment" in complaint(deploy(command, tmp_path))


# secrets


def test_render_hides_secrets(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "my-word"}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(secret))
    result = deploy("render", tmp_path)
    assert "my-word" not in result.output
    assert "<hidden" in result.stdout


def test_variables_that_sound_like_secrets_are_hidden():
    env = [
        {"name": "HF_TOKEN", "value": "abc"},
        {"name": "MAX_TOKENS", "value": "7"},
        {"name": "K", "value": ""},
    ]
    token, tokens, _ = printable({"spec": {"containers": [{"env": env}]}})["spec"]["containers"][0]["env"]
    assert token["value"] == hidden("abc")
    assert "abc" not in token["value"]
    assert tokens["value"] == "7"


DIFF = """diff -U99999 -N -r LIVE-1/v1.ConfigMap..c MERGED-2/v1.ConfigMap..c
--- LIVE-1/v1.ConfigMap..c\t2026-11-25
+++ MERGED-2/v1.ConfigMap..c\t2026-11-25
@@ -1,3 +1,3 @@
 kind: ConfigMap
 data:
-  a: "-1"
+  a: "@@ 2"
\\ No newline at end of file
"""


def test_both_sides_are_read_from_a_whole_diff():
    before, after = apply.sides(DIFF)
    assert before == {"kind": "ConfigMap", "data": {"a": "-1"}}
    assert after == {"kind": "ConfigMap", "data": {"a": "@@ 2"}}
    assert apply.sides("") == (None, None)


# what kubectl says


SAID = {
    "no right": (
        'Error from server (Forbidden): pods is forbidden: User "u" cannot list resource "pods"',
        'pods is forbidden: User "u" cannot list resource "pods". '
        "To fix: have an administrator grant deploy/rbac.yaml",
    ),
    "quota": (
        'Error from server (Forbidden): services "s" is forbidden: exceeded quota: q',
        'services "s" is forbidden: exceeded quota: q. To fix: raise the quota, or ask for less',
    ),
    "operators": (
        'error: no matches for kind "ScaledObject" in version "keda.sh/v1"\n'
        'no matches for kind "Odd" in version "odd.io/v1"',
        "the cluster does not know ScaledObject (keda.sh/v1). To fix: install KEDA, or apply overlays/gpu, "
        "which scales with a HorizontalPodAutoscaler; "
        "the cluster does not know Odd (odd.io/v1). To fix: install what provides it",
    ),
    "conflict": (
        'error: Apply failed with 1 conflict: conflict with "kubectl": .spec\nPlease review the fields--',
        'Apply failed with 1 conflict: conflict with "kubectl": .spec. '
        "To fix: --force-conflicts takes these fields over, a rollback's too",
    ),
    "whole object": (
        'The Job "j" is invalid: spec: Invalid value: core.Spec{Env: {"HF_TOKEN", "abc"}}: immutable',
        'The Job "j" is invalid: spec: immutable',
    ),
    "log lines": (
        "E1125 06:31:39.975471   29512 memcache.go:265] couldn't\nWarning: old\nerror: it is odd",
        "it is odd",
    ),
    "kubeconfig": (
        'error: error loading config file "/k": yaml: could not find expected value after my-token',
        "no usable kubeconfig. To fix: name one with --kubeconfig, or `make cluster` makes one",
    ),
    "nothing": ("", "kubectl failed and printed nothing"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_kubectl_says_becomes_a_message_with_its_fix(case):
    said, want = SAID[case]
    assert explain(said, list) == want


@pytest.mark.parametrize(
    "text",
    [b"", b"[1, 2]", b"a: {b", b"contexts: []\n", b"\xff\xfe\xff", b"users: [{user: {token: [my-word]}}]"],
)
def test_a_kubeconfig_that_is_none_is_not_quoted(text, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_bytes(text)
    said = complaint(deploy("diff", "cpu", "--kubeconfig", path))
    assert "no usable kubeconfig" in said
    assert "my-word" not in said


@pytest.mark.parametrize("command", ["diff", "apply", "wait", "watch", "rollback", "delete", "port-forward"])
def test_without_a_kubeconfig_each_command_says_so(command, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for more in ([], ["--kubeconfig", tmp_path / "none"], ["--kubeconfig", tmp_path]):
        assert "no usable kubeconfig" in complaint(deploy(command, "cpu", *more))


@pytest.fixture
def dead(tmp_path, monkeypatch):
    """A kubeconfig whose API server is down."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig("https://127.0.0.1:9"))
    monkeypatch.setenv("KUBECONFIG", str(path))


@pytest.mark.usefixtures("dead")
def test_a_wrong_context_is_named_with_its_neighbour():
    said = complaint(deploy("apply", "cpu", "--yes", "--context", "deployr"))
    assert "no context 'deployr' in the kubeconfig (did you mean 'deployer'?)" in said


@pytest.mark.usefixtures("dead")
def test_a_server_that_does_not_answer_is_named():
    said = complaint(deploy("diff", "cpu"))
    assert "server 127.0.0.1:9 was refused" in said
    assert "To fix: bring the cluster up, or correct its address" in said


# why a pod does not serve


def pod(name, digest="new", **status):
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"pod-template-hash": digest}},
        "status": status,
    }


def waiting(reason, message, **more):
    return [{"name": "server", "state": {"waiting": {"reason": reason, "message": message}}, **more}]


ENDED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "a\nno such model\n"}}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "reason": "Unschedulable",
    "message": "3 Insufficient nvidia.com/gpu",
}
TROUBLES = {
    "image": (
        {"containerStatuses": waiting("ImagePullBackOff", 'Back-off pulling image "specbook-cpu:0.1.0"')},
        ["new-1: ImagePullBackOff", "specbook-cpu:0.1.0", "kind load docker-image"],
    ),
    "secret": (
        {"containerStatuses": waiting("CreateContainerConfigError", 'secret "key" not found')},
        ['secret "key" not found', "secret.example.yaml"],
    ),
    "crash": (
        {"containerStatuses": waiting("CrashLoopBackOff", "back-off 10s", lastState=ENDED)},
        ["server ended with Error, exit 1: no such model", "kubectl logs --previous"],
    ),
    "name": (
        {"initContainerStatuses": waiting("InvalidImageName", "couldn't parse image")},
        ["InvalidImageName", "correct `images`"],
    ),
    "pool": ({"conditions": [UNSCHEDULABLE]}, ["Insufficient nvidia.com/gpu"]),
}


@pytest.mark.parametrize("case", TROUBLES)
def test_a_pods_trouble_is_named_with_its_fix(case):
    status, words = TROUBLES[case]
    (trouble,) = troubles([pod("new-1", **status)])
    assert all(word in str(trouble) for word in words), trouble
    assert trouble.hopeless == (case != "pool")


def replica_set(digest, revision):
    annotations = {"deployment.kubernetes.io/revision": str(revision)}
    labels = {"pod-template-hash": digest}
    return {"kind": "ReplicaSet", "metadata": {"name": digest, "annotations": annotations, "labels": labels}}


def test_old_pods_are_not_the_newest():
    objects = [replica_set("new", 10), replica_set("old", 9), pod("old-1", "old"), pod("new-1")]
    last, pods = newest(objects)
    assert (last["metadata"]["name"], pods) == ("new", [objects[3]])
    assert newest([]) == ({}, [])


def test_pods_that_cannot_be_created_are_explained():
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "pods is forbidden: exceeded quota: gpus",
    }
    assert "To fix: raise the quota" in refused({"status": {"conditions": [failure]}})
    assert refused({}) == ""


# watch


def test_watch_reads_an_autoscalers_metrics():
    (scaler,) = [d for d in manifests("gpu") if d["kind"] == "HorizontalPodAutoscaler"]
    current = {"metric": {"name": "specbook_queue_wait_ms"}, "current": {"value": "1500m"}}
    scaler["status"] = {"currentMetrics": [{"type": "External", "external": current}]}
    assert autoscaler_metrics(scaler) == {"specbook_queue_wait_ms": 1.5, "specbook_queue_time_p95_ms": None}


def test_a_sample_is_a_line_and_a_row():
    one = Sample(5.0, 3, 3, 1, 3, {"a_ms": 1.5, "b_ms": None})
    assert str(one) == "     5 s  wanted 3 (autoscaler: 3)  serving 1  #..       a_ms 2  b_ms unknown"
    assert one.row() == {
        "at_s": 5.0, "wanted": 3, "total": 3, "available": 1, "desired": 3, "a_ms": 1.5, "b_ms": None,
    }  # fmt: skip


def test_a_timeline_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot write"):
        write_timeline(tmp_path / "no" / "folder.csv", [{"at_s": 0}])


def test_the_rights_name_no_secrets():
    rules = [
        rule for d in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()) for rule in d.get("rules", [])
    ]
    assert not [rule for rule in rules if {"secrets", "*"} & {*rule["resources"], *rule["verbs"]}]
    assert json.dumps(rules).count("portforward") == 1
