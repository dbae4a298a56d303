"""Shipped manifests pass; each manifest that would hurt is refused, in words that say how to fix it."""

import pytest
from deploy_fixtures import COMPONENTS, OVERLAYS, manifests

from specbook.deploy.checks import DOOR, problems
from specbook.deploy.manifests import find, server
from specbook.engine.base import OPEN_PATHS
from specbook.errors import ConfigError

TO_SET = "set the 40-digit commit in models.env"


def but_for_revisions(documents: list) -> list[str]:
    return [problem for problem in problems(documents) if TO_SET not in problem]


@pytest.mark.parametrize("overlay", ["base", *OVERLAYS])
def test_shipped_overlays_lack_only_revisions(overlay):
    assert but_for_revisions(manifests(overlay)) == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_shipped_components_lack_nothing(component, with_component):
    assert but_for_revisions(with_component(component)) == []


def test_cpu_can_be_applied_as_it_is():
    assert problems(manifests("cpu")) == []


# failing controls: one change each


def container(documents):
    return server(documents).spec["containers"][0]


def argument(documents, old, new):
    args = container(documents)["args"]
    args[args.index(old)] = new


def scaler(documents):
    (found,) = find(documents, "HorizontalPodAutoscaler")
    return found["spec"]


def budget(documents):
    (found,) = find(documents, "PodDisruptionBudget")
    return found["spec"]


def opened(documents, paths):
    (variable,) = [each for each in container(documents)["env"] if each["name"] == OPEN_PATHS]
    variable["value"] = paths


def replicas(d):
    server(d).owner["spec"]["replicas"] = 3


CONTROLS = {
    "no preStop": (lambda d: container(d).pop("lifecycle"), "preStop sleeps 0 s"),
    "preStop below the lag": (
        lambda d: container(d)["lifecycle"]["preStop"]["sleep"].update(seconds=10),
        "balancers send for 20 s",
    ),
    "shutdown-timeout 0": (
        lambda d: argument(d, "--shutdown-timeout=120", "--shutdown-timeout=0"),
        "aborts every request in flight",
    ),
    "no shutdown-timeout": (
        lambda d: container(d)["args"].remove("--shutdown-timeout=120"),
        "aborts every request in flight",
    ),
    "drain below the longest request": (
        lambda d: argument(d, "--shutdown-timeout=120", "--shutdown-timeout=60"),
        "cuts requests that last 120 s",
    ),
    "grace too short": (
        lambda d: server(d).spec.update(terminationGracePeriodSeconds=140),
        "140 is below 150 = preStop 20 + shutdown-timeout 120 + exit 10",
    ),
    "replicas left in": (replicas, "remove spec.replicas"),
    "scale-in below the cold start": (
        lambda d: scaler(d)["behavior"]["scaleDown"].update(stabilizationWindowSeconds=120),
        "scale-in after 120 s takes pods that still load; 600 s are needed",
    ),
    "scale-in without a policy": (
        lambda d: scaler(d)["behavior"]["scaleDown"].pop("policies"),
        "drop every pod but the minimum",
    ),
    "a metric that no rule makes": (
        lambda d: scaler(d)["metrics"][0]["external"]["metric"].update(name="specbook_queue_wait_s"),
        "no recording rule makes its metric specbook_queue_wait_s",
    ),
    "more pods than accelerators": (
        lambda d: scaler(d).update(maxReplicas=8),
        "8 accelerators / 1 per pod - 1 surge = 7",
    ),
    "minimum above maximum": (lambda d: scaler(d).update(minReplicas=9), "minimum 9 is above maximum 7"),
    "a target that is not there": (
        lambda d: scaler(d)["scaleTargetRef"].update(name="specbook"),
        "its target Deployment specbook is not among the manifests",
    ),
    "a drain takes all": (
        lambda d: scaler(d).update(minReplicas=1),
        "a drain may take all of the minimum of 1",
    ),
    "a drain is blocked": (
        lambda d: (budget(d).pop("maxUnavailable"), budget(d).update(minAvailable=2)),
        "minAvailable 2 with a minimum of 2 blocks every drain",
    ),
    "startup probe below the cold start": (
        lambda d: container(d)["startupProbe"].update(failureThreshold=30),
        "the startup probe allows 300 s, twice the cold start is 600 s",
    ),
    "deadline before the startup probe": (
        lambda d: server(d).owner["spec"].update(progressDeadlineSeconds=600),
        "progressDeadlineSeconds 600 gives up before",
    ),
    "no startup probe": (lambda d: container(d).pop("startupProbe"), "startupProbe missing"),
    "no /dev/shm": (lambda d: container(d)["volumeMounts"].pop(), "mount a memory volume at /dev/shm"),
    "service links": (lambda d: server(d).spec.pop("enableServiceLinks"), "VLLM_PORT"),
    "a token": (
        lambda d: server(d).spec.pop("automountServiceAccountToken"),
        "automountServiceAccountToken: false",
    ),
    "root": (lambda d: server(d).spec["securityContext"].pop("runAsNonRoot"), "needs runAsNonRoot"),
    "privilege escalation": (
        lambda d: container(d)["securityContext"].pop("allowPrivilegeEscalation"),
        "allowPrivilegeEscalation: false",
    ),
    "latest": (lambda d: container(d).update(image="specbook-cuda:latest"), "is not pinned"),
    "no tag": (lambda d: container(d).update(image="registry:5000/specbook-cuda"), "is not pinned"),
    "no memory limit": (
        lambda d: container(d)["resources"]["limits"].pop("memory"),
        "without a memory limit",
    ),
    "a key written out": (
        lambda d: container(d)["env"].append({"name": "VLLM_API_KEY", "value": "x"}),
        "VLLM_API_KEY is written out",
    ),
    "a key for /v1 alone": (
        lambda d: container(d)["args"].remove(DOOR),
        f"its key is asked for below /v1 only, add {DOOR}",
    ),
    "probes without a way in": (lambda d: opened(d, "/metrics"), "brings no key: name /health in"),
    "Prometheus without a way in": (
        lambda d: opened(d, "/health"),
        "PodMonitor specbook/specbook-server brings no key: name /metrics in SPECBOOK_OPEN_PATHS",
    ),
    "no protocol": (lambda d: container(d)["ports"][0].pop("protocol"), "names no protocol"),
    "selector": (
        lambda d: find(d, "Service")[0]["spec"]["selector"].update({"app.kubernetes.io/component": "serve"}),
        "Service specbook/specbook-server: its selector picks no pod",
    ),
    "port name": (
        lambda d: find(d, "PodMonitor")[0]["spec"]["podMetricsEndpoints"][0].update(port="metrics"),
        "no container has a port named 'metrics'",
    ),
    "head of other weights": (
        lambda d: find(d, "ConfigMap")[0]["data"].update(DRAFT_FOR="0" * 40),
        "the head was trained for 0000",
    ),
    "labels of other models": (
        lambda d: find(d, "ConfigMap")[0]["data"].update(TARGET_REVISION="1" * 40, DRAFT_FOR="1" * 40),
        "specbook/target-version is of other models",
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_the_control_fails(name):
    spoil, complaint = CONTROLS[name]
    documents = manifests("gpu")
    spoil(documents)
    found = but_for_revisions(documents)
    assert len(found) == 1, found
    assert complaint in found[0]


def test_no_scale_in_window_covers_a_start_of_hours():
    documents = manifests("neuron")
    scaler(documents)["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": 3600, "policies": []}
    assert "disable scale-in, or start faster" in but_for_revisions(documents)[0]


def test_keda_is_held_to_the_same():
    documents = manifests("keda")
    (scaled,) = find(documents, "ScaledObject")
    scaled["spec"]["triggers"][1]["metadata"]["query"] = "specbook:queue_wait_s{}"
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    behavior["scaleDown"]["stabilizationWindowSeconds"] = 300
    first, second = but_for_revisions(documents)
    assert "600 s are needed" in first
    assert "no recording rule makes its query specbook:queue_wait_s" in second


def test_a_share_of_surge_counts_in_pods():
    documents = manifests("gpu")
    server(documents).owner["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = "25%"
    (found,) = but_for_revisions(documents)
    assert "8 accelerators / 1 per pod - 2 surge = 6" in found


def test_a_pool_too_small_for_one_pod_is_told():
    documents = manifests("tensor-parallel")
    server(documents).owner["metadata"]["annotations"]["specbook/accelerators"] = "2"
    assert "2 accelerators / 4 per pod - 1 surge = -1" in but_for_revisions(documents)[0]


def test_a_target_without_a_head_is_no_mismatch():
    documents = manifests("ngram-fallback")
    for name in ("DRAFT_REPO", "DRAFT_REVISION", "DRAFT_FOR"):
        find(documents, "ConfigMap")[0]["data"].pop(name)
    assert but_for_revisions(documents) == []


def words(documents):
    argument(documents, "--shutdown-timeout=120", "--shutdown-timeout=2m")


def unit(documents):
    server(documents).owner["metadata"]["annotations"]["specbook/cold-start-seconds"] = "5m"


@pytest.mark.parametrize(
    ("spoil", "said"), [(words, "--shutdown-timeout is '2m'"), (unit, "specbook/cold-start-seconds is '5m'")]
)
def test_what_is_no_number_is_named(spoil, said):
    documents = manifests("gpu")
    spoil(documents)
    with pytest.raises(ConfigError, match=f"{said}: write a number"):
        problems(documents)


def test_a_scraper_with_a_key_needs_no_open_path():
    documents = manifests("gpu")
    opened(documents, "/health")
    (endpoint,) = find(documents, "PodMonitor")[0]["spec"]["podMetricsEndpoints"]
    endpoint["authorization"] = {"credentials": {"name": "specbook-api-key", "key": "api-key"}}
    assert but_for_revisions(documents) == []


def test_a_server_without_a_key_needs_no_door():
    documents = manifests("gpu")
    spoilt = container(documents)
    spoilt["env"] = [each for each in spoilt["env"] if each["name"] != "VLLM_API_KEY"]
    spoilt["args"].remove(DOOR)
    assert but_for_revisions(documents) == []


def test_a_digest_pins_as_well():
    documents = manifests("gpu")
    container(documents)["image"] = f"specbook-cuda@sha256:{'0' * 64}"
    assert but_for_revisions(documents) == []
