"""What an experiment on a Kubernetes cluster keeps: every request, and the pods and signals over time.

Seconds count from the first arrival of the load, `at_s` below; what came before is negative.
"""

from typing import Literal

from specbook.config.schema import Frozen

Outcome = Literal["whole", "truncated", "refused"]
"""Outcome of a streamed answer: complete with its last chunk, broken off after it began, or never begun."""


class OpenLoopRequests(Frozen):
    """All requests that were sent, [n], in the order of their arrival."""

    sent_s: tuple[float, ...]
    ttft_s: tuple[float | None, ...]
    """None where no token came."""
    e2e_s: tuple[float, ...]
    """To the last byte, or to the failure."""
    output_tokens: tuple[int, ...]
    outcome: tuple[Outcome, ...]
    errors: dict[str, int]
    """Message of a failure -> how many requests had it."""


class Timeline(Frozen):
    """The cluster as it was read, [n] readings; None where a reading failed or the value does not exist."""

    at_s: tuple[float, ...]
    wanted: tuple[int | None, ...]
    """`spec.replicas` of the Deployment."""
    ready: tuple[int | None, ...]
    """Pods that are ready and not ending."""
    existing: tuple[int | None, ...]
    desired: tuple[int | None, ...]
    """What the autoscaler asks for."""
    queue_wait_ms: tuple[float | None, ...]
    """By Little's law: the signal as the autoscaler's API serves it."""
    queue_time_p95_ms: tuple[float | None, ...]
    """95th percentile of the queue time of finished requests, in ms: the second signal."""
    running: tuple[float | None, ...]
    """`vllm:num_requests_running` over the pods that answered."""
    waiting: tuple[float | None, ...]
    """`vllm:num_requests_waiting` likewise."""


class PodLife(Frozen):
    """One pod's stages; None for a stage that was not seen."""

    name: str
    created_s: float
    scheduled_s: float | None = None
    started_s: float | None = None
    """Start of the container that runs now."""
    ready_s: float | None = None
    deleted_s: float | None = None
    """When its deletion was asked for."""
    gone_s: float | None = None
    restarts: int = 0


class Performed(Frozen):
    """An action on the cluster while the load ran."""

    action: str
    began_s: float
    ended_s: float
    """When it was done, a rollout included if it was waited for."""
    outcome: str
    """What kubectl said last, or the failure."""


class ClusterRun(Frozen):
    """One load on one Deployment, with all that happened to it."""

    kubernetes: str
    """Version of the API server."""
    nodes: int
    changed: tuple[str, ...]
    """How the manifests differ from those shipped."""
    translated: tuple[str, ...]
    """Words of the manifests that this API server knows by another name."""
    segments_s: tuple[float, ...]
    """Start of each segment of the load."""
    ended_s: float
    """When the last arrival had been sent."""
    requests: OpenLoopRequests
    timeline: Timeline
    pods: tuple[PodLife, ...]
    actions: tuple[Performed, ...]
    spec_decode: dict[str, float] | None = None
    """Growth of drafts, drafted and accepted tokens over the pods that lived through the run."""
