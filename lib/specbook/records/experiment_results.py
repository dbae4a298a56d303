"""Results of the experiments, as their records keep them: one section for each kind."""

from typing import Literal

from specbook.config.schema import Frozen
from specbook.records.run import ServerCounters, SpecDecodeCounters
from specbook.stats.estimate import Estimate

# mixtures of experts


class StepExperts(Frozen):
    """Experts of a layer that a step touches, counted in the model's own routing of recorded answers."""

    domain: str
    concurrency: int
    num_speculative_tokens: int
    """K; 0 is a decode step."""
    experts: Estimate
    """Distinct experts, mean over layers and choices of answers; n counts answers."""


class ExpertsTouched(Frozen):
    """How many experts steps of several sizes touch."""

    num_experts: int
    num_experts_per_token: int
    context: int
    """Mean tokens before a step: what its keys and values are counted by."""
    logit_spread: float
    """Standard deviation of the router's logits over the experts, which noise is compared with."""
    touched: tuple[StepExperts, ...]


class NoisyDomain(Frozen):
    """One domain's prompts, each answered greedily by itself."""

    domain: str
    counters: tuple[SpecDecodeCounters, ...]
    """Draft counters of each prompt."""
    passed: Estimate
    """Answers that pass the domain's own check."""
    looped: Estimate
    """Answers that say one thing over and over."""
    experts: Estimate | None
    """Distinct experts of a layer that a verification step touches; n counts prompts. None where every
    answer is shorter than a step."""


class NoisyRouter(Frozen):
    """What a strength of noise in the target's router does to drafts, answers and experts."""

    router_noise: float
    head_noise: float | None
    """What the head was trained on with, 0 to be compared with; None: it is the one that is served."""
    num_speculative_tokens: int
    domains: tuple[NoisyDomain, ...]


# a step


class Variant(Frozen):
    """One way to run the engine."""

    name: str
    """Name in the plan; the first variant is the engine as chapters run it."""
    length: float
    """Tokens a step, bonus token included; 1 without speculation."""
    step_s: tuple[float, ...]
    """Median of each turn, with the profiler off; turns of the same place were taken together."""
    profiled_step_s: float
    """Median with the profiler on: what it costs is the difference."""
    parts: dict[str, float]
    """Part of a step -> its share, of the steps that were profiled."""


class StepTimes(Frozen):
    """Steps of one method at one batch of one sequence."""

    variants: tuple[Variant, ...]


# a probe


class Probed(Frozen):
    """One prompt and what its answer took."""

    prompt_id: str
    domain: str
    output_tokens: int
    e2e_s: float
    spec_decode: SpecDecodeCounters | None
    """The server's counters over this answer; None where it was refused, or others were served meanwhile."""
    refused: str | None = None
    """Why the server did not answer."""


# drift: seconds count from the first request of a window

ArmName = Literal["fallback", "drafting", "plain"]


class Readings(Frozen):
    """A server's acceptance counters, read again and again, [n]; None where it gave no answer."""

    at_s: tuple[float, ...]
    num_drafts: tuple[int | None, ...]
    num_accepted_tokens: tuple[int | None, ...]


class Requests(Frozen):
    """Requests that were answered, [n], in the order in which they were sent."""

    start_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    e2e_s: tuple[float, ...]
    output_tokens: tuple[int, ...]
    sent: int
    """Number of all that were sent: those beyond n were lost."""


class Episode(Frozen):
    """One window of traffic."""

    drift_s: tuple[float, ...]
    """When the first request of each further phase was sent; empty where nothing drifts."""
    readings: Readings
    requests: Requests


class DriftEpisodes(Frozen):
    """Episodes on one server."""

    episodes: tuple[Episode, ...]
    weights_sha256: dict[str, str]


class ServerSwitch(Frozen):
    """A change of the server that new requests go to."""

    at_s: float
    drafting: bool
    length: float
    """Acceptance length of the window that caused it."""
    in_flight: dict[str, int]
    """Requests by server, of which none may be lost."""


class RoutedArm(Frozen):
    """The same traffic through the same router: with the policy, or always to one of the two servers."""

    arm: ArmName
    repeat: int
    episode: Episode
    switches: tuple[ServerSwitch, ...]
    served: dict[str, int]
    """Answers that were passed on whole, by server."""
    broken: int
    """Answers that broke off."""


class FallbackArms(Frozen):
    """All arms of all repeats, in the order in which they were measured."""

    arms: tuple[RoutedArm, ...]
    weights_sha256: dict[str, str]


# acceptance played at given rates


class TimedArm(Frozen):
    """One server at one batch; tuples are [turns], and turns of the same place were taken together."""

    rates: tuple[float, ...]
    """Joint acceptance by position, over all turns."""
    length: tuple[float, ...]
    """Tokens a step, bonus token included."""
    step_s: tuple[float, ...]
    """Median gap between chunks of the stream."""
    tpot_s: tuple[tuple[float, ...], ...]
    """TPOT of each request, by turn: seconds a token behind the first."""


class Pair(Frozen):
    """Both ways at one batch."""

    concurrency: int
    real: TimedArm
    """The draft is verified by the target."""
    played: TimedArm
    """The same servers' work, and each draft token accepted by chance at the rates that were set."""


class AcceptanceComparison(Frozen):
    """One method on one kind of traffic."""

    rates: tuple[float, ...]
    """What was set: the real draft's joint acceptance, counted before."""
    pairs: tuple[Pair, ...]


# a schedule of K


class Counted(Frozen):
    """What a server counted from one reading to another."""

    server: ServerCounters
    spec_decode: SpecDecodeCounters | None


class SteadyCount(Counted):
    """One turn of a closed loop, counted while every slot was taken."""

    seconds: float
    step_s: float
    """Median gap between chunks of the stream, of the whole turn."""


class ScheduledBatch(Frozen):
    """Two servers at one batch, [turns]; turns of the same place were taken together."""

    concurrency: int
    scheduled: tuple[SteadyCount, ...]
    plain: tuple[SteadyCount, ...]
    """Without speculation."""


class Comeback(Frozen):
    """Answers that live through a burst, and the same ones alone: before it, during it, and just after."""

    burst: tuple[Counted, ...]
    """The second holds the burst's own answers too."""
    alone: tuple[Counted, ...]


class ObeyedSchedule(Frozen):
    """A schedule at several batches, and across its thresholds."""

    batches: tuple[ScheduledBatch, ...]
    comebacks: tuple[Comeback, ...]


# answers sampled above temperature 0

BASELINE, RESTARTED, WRONG = "baseline", "baseline, restarted", "wrong sampler"
"""Names of the arms beside the method's own."""


class SampledArm(Frozen):
    """What one server answered at one temperature, each answer with a seed of its own."""

    arm: str
    restart: int
    temperature: float
    answers: tuple[tuple[tuple[int, ...], ...], ...]
    """[prompts, samples, tokens] ids, the end-of-turn token included."""
    spec_decode: SpecDecodeCounters | None = None
    """Draft counters over all of these answers; None without speculation."""


class SampledAnswers(Frozen):
    """All arms of all restarts."""

    prompt_ids: tuple[str, ...]
    arms: tuple[SampledArm, ...]


# a cluster: seconds count from the first arrival of the load, and what came before is negative

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


class ActionOutcome(Frozen):
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
    actions: tuple[ActionOutcome, ...]
    spec_decode: dict[str, float] | None = None
    """Growth of drafts, drafted and accepted tokens over the pods that lived through the run."""


# a day of traffic: seconds count from its beginning


class DayArm(Frozen):
    """One server's day."""

    arm: str
    """Label of its draft, or `baseline`."""
    restart: int
    """Arms of one restart were sent the same requests at the same times."""
    requests: OpenLoopRequests
    spec_decode: SpecDecodeCounters | None = None
    """Draft counters over the day; None without speculation."""


class DayArms(Frozen):
    """All arms of all restarts, in the order in which they were measured."""

    arms: tuple[DayArm, ...]


# what making a model takes


class TrainingStep(Frozen):
    """What a stage of training reported, and the time until it reported again or ended."""

    name: str
    seconds: float


class TrainingTimes(Frozen):
    """A stage of training from nothing."""

    steps: tuple[TrainingStep, ...]
    peak_rss_bytes: int
    """Of the largest process, the trainer or its server."""
    disk_bytes: int
    """What it left under `build/`: packages, models, answers, hidden states, checkpoints."""
