"""The numbers behind the manifests, at points worked out by hand."""

import pytest

from specbook.deploy import checks as a


def test_grace_is_the_sum_of_its_parts():
    assert a.termination_grace_s(a.pre_stop_s(15), 120) == 20 + 120 + 10


@pytest.mark.parametrize(("cold_s", "window_s"), [(40, 300), (150, 300), (151, 302), (1020, 2040)])
def test_scale_in_waits_for_two_cold_starts(cold_s, window_s):
    assert a.scale_down_window_s(cold_s) == window_s


@pytest.mark.parametrize(
    ("pool", "per_pod", "surge", "most"),
    [(8, 1, 1, 7), (8, 1, 0, 8), (16, 4, 1, 3), (10, 4, 0, 2), (4, 4, 1, 0)],
)
def test_a_rollouts_surge_pod_has_its_place(pool, per_pod, surge, most):
    assert a.max_replicas(pool, per_pod, surge) == most


def test_the_reaction_time_is_the_sum_of_its_stages():
    assert a.reaction_bound_s(10, 25, 10, 30, 15, 300) == 390
