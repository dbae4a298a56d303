"""What the experiments with a mixture of experts found, as their records keep it."""

from specbook.config.schema import Frozen
from specbook.records.run import SpecDecodeCounters
from specbook.stats.estimate import Estimate


class Touched(Frozen):
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
    """Standard deviation of the router's logits over the experts: noise is held against it."""
    touched: tuple[Touched, ...]


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
