"""Made-up results of the experiments with a mixture of experts, written as records of a plan."""

from specbook import records
from specbook.config import Chapter
from specbook.config.chapter import Experiment
from specbook.config.schema import Frozen
from specbook.records.experiment_results import (
    ExpertsTouched,
    NoisyDomain,
    NoisyRouter,
    StepExperts,
    StepTimes,
    Variant,
)
from specbook.records.run import ExperimentRecord, SpecDecodeCounters
from specbook.stats import experts, wilson
from specbook.stats.estimate import Estimate
from synthetic import HARDWARE, ORIGIN, START


def write(plan: Chapter, agreement: float = 0.8, harm: float = 0.1, more_experts: float = 0.0) -> None:
    """Append a record of each experiment: experts are `agreement` of the formula's, each logit of noise costs
    `harm` of the acceptance and adds `more_experts`."""
    for index, asked in enumerate(plan.experiments):
        given = asked.parameters
        if asked.name == "experts_touched":
            result: Frozen = _touched(given, agreement)
        elif asked.name == "step":
            result = _stepped(given)
        else:
            result = _noisy(given, harm, more_experts)
        records.append(_record(plan, asked, index, result))


def _record(plan: Chapter, asked: Experiment, index: int, result: Frozen) -> ExperimentRecord:
    return ExperimentRecord(
        run_id=f"simulated-{index}-{asked.key[:8]}", chapter=plan.chapter, kind="simulated", status="ok",
        started_at=START.isoformat(), experiment=asked, hardware=HARDWARE, provenance=ORIGIN,
        result=result.model_dump(mode="json"),
    )  # fmt: skip


def about(value: float, width: float, unit: str = "prompts") -> Estimate:
    """A value with an interval of that half width."""
    return Estimate(
        value=value, low=value - width, high=value + width, n=8, unit_of_n=unit, method="student-t"
    )


def _touched(given: dict, agreement: float) -> ExpertsTouched:
    found = [
        StepExperts(domain=domain, concurrency=batch, num_speculative_tokens=k, experts=about(
            2 + agreement * (experts.touched(8, 2, batch * (k + 1)) - 2), 0.05, "answers"))
        for domain in given["domains"] for batch in given["concurrency"]
        for k in (0, *given["num_speculative_tokens"])
    ]  # fmt: skip
    return ExpertsTouched(num_experts=8, num_experts_per_token=2, context=90,
                          logit_spread=1.5, touched=tuple(found))  # fmt: skip


def _stepped(given: dict) -> StepTimes:
    """Five milliseconds of which the target's pass takes four, or twice as long with a draft."""
    step_s = 0.01 if "speculation" in given else 0.005
    return StepTimes(
        variants=tuple(
            Variant(name=option["name"], length=2.0, step_s=(step_s,) * 3, profiled_step_s=step_s,
                    parts={"target's pass": 0.8, "between steps": 0.2})
            for option in given.get("options", [{"name": "as planned"}])
        )
    )  # fmt: skip


def _noisy(given: dict, harm: float, more_experts: float) -> NoisyRouter:
    strength, head = given["router_noise"], given.get("head_noise")
    share = max(0.0, 0.9 - harm * strength * (1.0 if head is None else 0.5))
    accepted = tuple(round(100 * share ** (i + 1)) for i in range(5))
    counted = SpecDecodeCounters(num_drafts=100, num_draft_tokens=500, num_accepted_tokens=sum(accepted),
                                 num_accepted_tokens_per_pos=accepted)  # fmt: skip
    right = max(0, round(20 * (1 - harm * strength)))
    return NoisyRouter(
        router_noise=strength, head_noise=head, num_speculative_tokens=5,
        domains=tuple(
            NoisyDomain(
                domain=domain, counters=(counted,) * 8, passed=wilson(right, 20), looped=wilson(0, 20),
                experts=about(4 + more_experts * strength, 0.1),
            )
            for domain in given["domains"]
        ),
    )  # fmt: skip
