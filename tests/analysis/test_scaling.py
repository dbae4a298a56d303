"""Tables of runs on a cluster, on a made-up run whose stages are known."""

import math

import pytest

from clusters import N, made
from specbook import paths
from specbook.analysis import scaling
from specbook.bench.cluster_timeline import SIGNALS
from specbook.deploy.manifests import find, render
from specbook.records.experiment_results import ActionOutcome


def test_stages_of_a_reaction():
    want = {"signal": 10, "decision": 20, "pod": 21, "scheduled": 22, "started": 23, "ready": 70, "calm": 79}
    assert scaling.stages(made()) == want


def test_a_stage_that_never_came_is_nan():
    run = made()
    still = run.model_copy(
        update={"timeline": run.timeline.model_copy(update={"desired": (1,) * N}), "pods": run.pods[:1]}
    )
    found = scaling.stages(still)
    assert math.isnan(found["decision"])
    assert math.isnan(found["ready"])


def test_targets_are_the_shipped_autoscalers():
    scaler = find(render(paths.root() / "deploy" / "base"), "HorizontalPodAutoscaler")[0]
    shipped = {m["external"]["metric"]["name"]: float(m["external"]["target"]["value"])
               for m in scaler["spec"]["metrics"]}  # fmt: skip
    assert {SIGNALS[name]: limit for name, limit in scaling.TARGET_MS.items()} == shipped


def test_lost_requests_are_counted():
    found = scaling.counts(scaling.requests(made(lost_at=(3, 4))))
    assert found == {"sent": N, "whole": N - 2, "truncated": 2, "refused": 0, "lost": 2}


def test_requests_during_an_action():
    action = ActionOutcome(action="restart", began_s=100, ended_s=110, outcome="done")
    rows = scaling.during(made(actions=(action,)), ["restart"])
    assert rows["sent_s"].tolist() == [float(s) for s in range(98, 126)]  # and a balancer's lag after it


def test_a_rollout_lasts_until_its_old_pods_are_gone():
    action = ActionOutcome(action="restart", began_s=100, ended_s=110, outcome="done")
    run = made(actions=(action,), lost_at=(140,))
    old = run.pods[0].model_copy(update={"deleted_s": 111.0, "gone_s": 130.0})
    rows = scaling.during(run.model_copy(update={"pods": (old, run.pods[1])}), ["restart"])
    assert rows["sent_s"].max() == 145
    assert scaling.counts(rows)["lost"] == 1


def test_the_lag_is_the_one_that_the_manifests_reckon_with():
    (deployment,) = find(render(paths.root() / "deploy" / "base"), "Deployment")
    assert float(deployment["metadata"]["annotations"]["specbook/balancer-lag-seconds"]) == scaling.LAG_S


def test_tpot_needs_a_whole_answer():
    rows = scaling.requests(made(lost_at=(0,)))
    assert math.isnan(rows["tpot_s"][0])
    assert rows["tpot_s"][1] == pytest.approx(1.5 / 15)


def test_no_p99_from_two_hundred_requests():
    found = scaling.latency(scaling.requests(made()))
    assert found["ttft_p50_s"] == 0.5
    assert math.isnan(found["ttft_p99_s"])


def test_pod_seconds_and_cold_start():
    assert scaling.pod_seconds(made()) == pytest.approx(130 * 1 + 69 * 2, abs=2)
    assert scaling.cold_start_s(made()) == [47]
    assert scaling.most_ready(made()) == 2


def test_changes_of_the_wanted_number_are_flaps():
    assert scaling.flaps(made(), 0, 70) == 0
    assert scaling.flaps(made(), 0, 100) == 1


def test_load_over_time_has_its_losses():
    table = scaling.over_time(made(lost_at=(3, 4)))
    assert table["arrivals_per_s"].tolist() == [1.0] * 20
    assert table["lost"].tolist()[:2] == [2, 0]
