"""A made-up run on a cluster: load triples at 60 s, signal at 70, decision at 80, a pod ready at 130."""

from specbook.records.experiment_results import ActionOutcome, ClusterRun, OpenLoopRequests, PodLife, Timeline

N = 200


def made(lost_at: tuple[int, ...] = (), actions: tuple[ActionOutcome, ...] = ()) -> ClusterRun:
    """One request a second, 2 s each; those of `lost_at` are truncated."""
    at = tuple(float(s) for s in range(N))
    sent = tuple(float(s) for s in range(N))
    return ClusterRun(
        kubernetes="v1.20.2", nodes=1, changed=("CPU limit 600m",), translated=(),
        segments_s=(0.0, 60.0), ended_s=float(N), actions=actions,
        requests=OpenLoopRequests(
            sent_s=sent, ttft_s=(0.5,) * N, e2e_s=(2.0,) * N, output_tokens=(16,) * N,
            outcome=tuple("truncated" if i in lost_at else "whole" for i in range(N)),
            errors={"cut": len(lost_at)} if lost_at else {},
        ),
        timeline=Timeline(
            at_s=at, wanted=tuple(1 if s < 80 else 2 for s in range(N)),
            ready=tuple(1 if s < 130 else 2 for s in range(N)),
            existing=tuple(1 if s < 80 else 2 for s in range(N)),
            desired=tuple(1 if s < 80 else 2 for s in range(N)),
            queue_wait_ms=tuple(0.0 if s < 70 else 900.0 if s < 140 else 0.0 for s in range(N)),
            queue_time_p95_ms=(None,) * N, running=(2.0,) * N,
            waiting=tuple(0.0 if s < 65 else 4.0 if s < 135 else 0.0 for s in range(N)),
        ),
        pods=(
            PodLife(name="a", created_s=-100, scheduled_s=-100, started_s=-99, ready_s=-50),
            PodLife(name="b", created_s=81, scheduled_s=82, started_s=83, ready_s=130),
        ),
    )  # fmt: skip
