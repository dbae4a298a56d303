"""What speculative decoding should do: acceptance lengths, speed-ups, break-even. Pure arithmetic, no
measurement.

Costs are in units of one decode step of the baseline at the same batch size. Measured costs go in here, and
what comes out is `computed`, never `measured`.

Source: Leviathan et al. 2023 (arXiv:2211.17192), section 3.
"""

from collections.abc import Sequence
from itertools import pairwise

from scipy.optimize import brentq


def expected_acceptance_length(alpha: float, k: int) -> float:
    """Mean tokens the target emits per verification step, bonus token included, in [1, k + 1].

    Args:
        alpha: per-token acceptance probability, i.i.d., in [0, 1].
        k: draft tokens per step, >= 0.

    Raises:
        ValueError: if alpha or k is out of range.

    Source: Leviathan et al. 2023, equation 1.
    """
    if not 0.0 <= alpha <= 1.0 or k < 0:
        raise ValueError(f"need 0 <= alpha <= 1 and k >= 0, got {alpha=}, {k=}")
    return sum(alpha**i for i in range(k + 1))  # a finite sum also holds at alpha = 1


def acceptance_length(joint: Sequence[float], k: int) -> float:
    """Tokens a step yields, bonus token included, from joint acceptance by position: 1 + its first k.

    Args:
        joint: [n] shares of drafts whose positions 0..i were all accepted, in [0, 1], never rising.
        k: draft tokens per step, 0..n.

    Raises:
        ValueError: if a share is out of range or rises (these are conditional, then), or k exceeds n.
    """
    if not 0 <= k <= len(joint):
        raise ValueError(f"need 0 <= k <= {len(joint)}, the positions given, got {k}")
    for position, (before, share) in enumerate(zip((1.0, *joint), joint, strict=False), start=1):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"acceptance at position {position} is {share}: a share lies between 0 and 1")
        if share > before:
            raise ValueError(
                f"acceptance rises from {before} to {share} at position {position}: joint acceptance cannot "
                "rise. Are these conditional rates? Multiply each with those before it"
            )
    return 1.0 + sum(joint[:k])


def step_cost(k: int, draft_cost: float, fixed_cost: float = 1.0) -> float:
    """Cost of one speculative step, in baseline decode steps.

    Args:
        k: draft tokens per step, >= 0; 0 is a plain decode step and costs 1.
        draft_cost: what each draft token adds, drafted and checked, in baseline decode steps, >= 0.
        fixed_cost: what is paid at any k, in baseline decode steps, > 0. Both are measured at the batch in
            question. With parallel drafting draft_cost is lower, and never 0: each token is checked.

    Raises:
        ValueError: if an argument is out of range.
    """
    if k < 0 or draft_cost < 0.0 or fixed_cost <= 0.0:
        raise ValueError(f"need k, draft_cost >= 0, fixed_cost > 0, got {k=}, {draft_cost=}, {fixed_cost=}")
    return fixed_cost + k * draft_cost if k else 1.0


def speedup(acceptance_length: float, k: int, draft_cost: float, fixed_cost: float = 1.0) -> float:
    """Speed over the baseline: tokens per step divided by the step's cost (see `step_cost`); < 1 is a loss.

    Raises:
        ValueError: if the acceptance length is outside [1, k + 1], or a cost is out of range.

    Source: Leviathan et al. 2023, theorem 3.8, with a fixed cost of its own.
    """
    if not 1.0 <= acceptance_length <= k + 1:
        raise ValueError(f"an acceptance length lies in [1, k + 1], got {acceptance_length=}, {k=}")
    return acceptance_length / step_cost(k, draft_cost, fixed_cost)


def alpha_from_acceptance_length(length: float, k: int) -> float:
    """The i.i.d. acceptance probability, in [0, 1], of this acceptance length, in tokens/step, at k >= 1.

    A summary: real acceptance falls or rises with the position (see `acceptance.conditional`).

    Raises:
        ValueError: if the length cannot occur at this k.
    """
    if k < 1 or not 1.0 <= length <= k + 1:
        raise ValueError(f"need k >= 1 and a length in [1, k + 1], got {length=}, {k=}")
    return float(brentq(lambda alpha: expected_acceptance_length(alpha, k) - length, 0.0, 1.0))


def best_k_of(joint: Sequence[float], draft_cost: float, fixed_cost: float = 1.0) -> int:
    """Draft tokens per step, 0..len(joint), of the highest speed-up; ties to the smaller; 0: none at all.

    Raises:
        ValueError: as `acceptance_length` and `step_cost`.
    """
    lengths = (acceptance_length(joint, k) for k in range(len(joint) + 1))
    gains = [speedup(length, k, draft_cost, fixed_cost) for k, length in enumerate(lengths)]
    return gains.index(max(gains))


def break_even_batch(batches: Sequence[float], speedups: Sequence[float]) -> float | None:
    """The batch at which the speed-up falls through 1, between the two nearest of `batches` (rising).

    The speed-up is taken as a straight line over the logarithm of the batch. None where it does not fall
    through 1: it may win, or lose, at all of them.

    Raises:
        ValueError: if the lengths differ, or the batches do not rise.
    """
    if any(after <= before for before, after in pairwise(batches)):
        raise ValueError(f"batches have to rise, got {list(batches)}")
    cells = pairwise(zip(batches, speedups, strict=True))
    for (batch, here), (next_batch, there) in cells:
        if here >= 1 > there:
            return float(batch * (next_batch / batch) ** ((here - 1) / (here - there)))
    return None
