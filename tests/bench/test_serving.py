"""How an experiment's Deployment differs from the shipped one."""

import pytest

from specbook.bench.serving_overlay import Serving, manifests
from specbook.deploy.manifests import find


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
