"""A scenario on a cluster: what it changes, the late balancer, the timeline from an API that is faked."""

import json
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from specbook import paths
from specbook.bench.cluster_scenario import Scenario, Serving, late_balancer, manifests
from specbook.bench.cluster_timeline import ClusterApi, Observer
from specbook.bench.experiments.cluster import _Run
from specbook.deploy.manifests import find
from specbook.errors import ClusterError

POD = {
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "status": {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"},
        ],
        "containerStatuses": [
            {"restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}}}
        ],
    },
}
METRICS = """vllm:num_requests_running{engine="0"} 4.0
vllm:num_requests_waiting{engine="0"} 7.0
vllm:spec_decode_num_drafts_total{engine="0"} 10.0
"""
ANSWERS = {
    "/version": {"gitVersion": "v1.20.2", "minor": "20+"},
    "/apis/apps/v1/namespaces/specbook/deployments/specbook-server": {"spec": {"replicas": 2}},
    "/api/v1/namespaces/specbook/pods": {"items": [POD]},
    "/apis/autoscaling/v2beta2/namespaces/specbook/horizontalpodautoscalers/specbook-server": {
        "status": {"desiredReplicas": 3}
    },
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/specbook/specbook_queue_wait_ms": {
        "items": [{"value": "1500m"}]
    },
}


def api(**instead) -> ClusterApi:
    known = ANSWERS | instead

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/metrics"):
            return httpx.Response(200, text=METRICS)
        found = known.get(request.url.path)
        return httpx.Response(404) if found is None else httpx.Response(200, json=found)

    return ClusterApi(httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x"))


def test_a_reading_has_pods_signals_and_the_servers_gauges():
    observer = Observer(api())
    row = observer._read(time.time())
    assert row["wanted"] == 2
    assert (row["existing"], row["ready"], row["desired"]) == (1, 1, 3)
    assert row["queue_wait_ms"] == 1.5
    assert row["queue_time_p95_ms"] is None  # 404: the source is gone, and nothing is made up
    assert (row["running"], row["waiting"]) == (4, 7)


def test_a_pods_life_counts_from_the_loads_start():
    observer = Observer(api())
    observer._read(1767225700.0)
    (life,) = observer.pods(zero=1767225600.0)  # a second is 2026-01-01 00:00:00
    assert (life.created_s, life.scheduled_s, life.started_s, life.ready_s) == (0, 1, 2, 60)
    assert life.restarts == 1


def test_a_pod_that_is_gone_has_its_end():
    observer = Observer(api())
    observer._read(1767225700.0)
    observer._note([], 1767225800.0)
    assert observer.pods(zero=1767225600.0)[0].gone_s == 200


def test_no_external_metrics_api_is_said_first():
    asked = Scenario(
        scenario="x",
        serving={"autoscaler": True},
        segments=[{"rate_per_s": 1, "duration_s": 1}],
        max_tokens=4,
    )
    with pytest.raises(ClusterError, match=r"no external metrics API.*external-metrics-adapter"):
        _Run(asked, None, api())._prepare()


def kept(pid: int) -> Path:
    place = paths.build_dir() / "cluster" / "run" / "pids.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"proxy": pid}))
    return place


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_the_balancer_is_late_while_the_load_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build_dir", lambda: tmp_path)
    proxy = subprocess.Popen(["sleep", "60"])
    try:
        kept(proxy.pid)
        with late_balancer(5):
            deadline = time.monotonic() + 5
            while state(proxy.pid) != "T" and time.monotonic() < deadline:
                time.sleep(0.01)
            assert state(proxy.pid) == "T"
        assert state(proxy.pid) != "T"
    finally:
        proxy.kill()
        proxy.wait()


def test_a_late_balancer_needs_the_local_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build_dir", lambda: tmp_path)
    with pytest.raises(ClusterError, match="balancer_lag_s pauses"), late_balancer(5):
        pass
    with late_balancer(0):  # nobody is needed
        pass


# the Deployment


def pod(serving: Serving) -> dict:
    return find(manifests(serving)[0], "Deployment")[0]["spec"]["template"]["spec"]


def test_shipped_autoscaler_and_rules_are_added():
    kinds = [one["kind"] for one in manifests(Serving())[0]]
    assert {"HorizontalPodAutoscaler", "PrometheusRule", "PodMonitor"} <= set(kinds)


def test_autoscaler_can_be_left_out():
    assert not find(manifests(Serving(autoscaler=False))[0], "HorizontalPodAutoscaler")


def test_speculation_can_be_left_out():
    assert any("speculative" in arg for arg in pod(Serving())["containers"][0]["args"])
    assert not any("speculative" in arg for arg in pod(Serving(speculation=False))["containers"][0]["args"])


@pytest.mark.parametrize(
    ("change", "line"),
    [({"max_num_seqs": 4}, "--max-num-seqs=4"), ({"shutdown_timeout_s": 0}, "--shutdown-timeout=0"),
     ({"pre_stop_s": 0}, "no preStop"), ({"grace_s": 5}, "terminationGracePeriodSeconds 5"),
     ({"cpu_limit": "600m"}, "CPU limit 600m"), ({"replicas": 1}, "spec.replicas 1"),
     ({"scale_down_window_s": 0}, "autoscaler: scale-in window 0 s")],
)  # fmt: skip
def test_every_change_is_listed(change, line):
    assert line in manifests(Serving(**change))[1]


def test_slots_and_drain_reach_the_command_line():
    args = pod(Serving(max_num_seqs=4, shutdown_timeout_s=0))["containers"][0]["args"]
    assert "--max-num-seqs=4" in args
    assert "--shutdown-timeout=0" in args


def test_prestop_hook_is_removed_by_zero():
    assert pod(Serving(pre_stop_s=0))["containers"][0]["lifecycle"] == {}
