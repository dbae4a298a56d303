"""Every number of the manifests, from cold start, drain and accelerators. Times: seconds."""

import math

EXIT_S = 10
"""For a drained server to leave: worker processes, the HTTP server, the container."""
LAG_MARGIN_S = 5
SCALE_DOWN_FLOOR_S = 300
SCALE_DOWN_LIMIT_S = 3600
"""The most that autoscaling/v2 accepts as a stabilisation window."""
COLD_STARTS = 2
"""A slow day's start may take twice the usual."""


def pre_stop_s(balancer_lag_s: float) -> int:
    """How long an ending pod goes on serving before it is told to stop."""
    return math.ceil(balancer_lag_s + LAG_MARGIN_S)


def termination_grace_s(pre_stop_s: float, shutdown_timeout_s: float) -> int:
    """From the decision to end a pod to its SIGKILL: preStop, then draining, then leaving."""
    return math.ceil(pre_stop_s + shutdown_timeout_s + EXIT_S)


def startup_allowance_s(cold_start_s: float) -> int:
    """How long a pod may load before it counts as failed."""
    return math.ceil(COLD_STARTS * cold_start_s)


def scale_down_window_s(cold_start_s: float) -> int:
    """The shortest safe stabilisation window for scale-in.

    With a `Value` target the autoscaler multiplies a ratio by the pods that are ready. Those still loading
    are missing from that product, so a wish made while they load must not be granted before they serve.
    """
    return max(SCALE_DOWN_FLOOR_S, math.ceil(COLD_STARTS * cold_start_s))


def max_replicas(accelerators: int, per_pod: int, surge: int) -> int:
    """Pods that fit, once a rollout's surge pods have their place; below 1 when the pool is too small."""
    return accelerators // per_pod - surge


def reaction_bound_s(
    scrape_s: float, window_s: float, rule_s: float, relist_s: float, sync_s: float, cold_start_s: float
) -> float:
    """The latest that capacity arrives after a step in load: each stage at its worst, one after the other."""
    return scrape_s + window_s + rule_s + relist_s + sync_s + cold_start_s
