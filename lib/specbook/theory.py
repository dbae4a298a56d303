"""What speculative decoding should do: acceptance lengths, speed-ups, break-even. Pure arithmetic, no
measurement.

Costs are in units of one decode step of the baseline at the same batch size. Measured costs go in here, and
what comes out is `computed`, never `measured`.

Source: Leviathan et al. 2023 (arXiv:2211.17192), section 3.
"""

from scipy.optimize import brentq


def expected_acceptance_length(alpha: float, k: int) -> float:
    """Tokens the target emits per verification step, bonus token included.

    Args:
        alpha: per-token acceptance probability, i.i.d., in [0, 1].
        k: draft tokens per step, >= 0.

    Returns:
        Mean acceptance length in tokens/step, in [1, k + 1].

    Raises:
        ValueError: if alpha or k is out of range.

    Source: Leviathan et al. 2023, equation 1.
    """
    if not 0.0 <= alpha <= 1.0 or k < 0:
        raise ValueError(f"need 0 <= alpha <= 1 and k >= 0, got {alpha=}, {k=}")
    return sum(alpha**i for i in range(k + 1))  # a finite sum also holds at alpha = 1


def step_cost(k: int, draft_cost: float, verify_cost: float = 1.0, parallel: bool = False) -> float:
    """Cost of one speculative step, in baseline decode steps.

    Args:
        k: draft tokens per step, >= 0; 0 is a plain decode step and costs 1.
        draft_cost: one forward pass of the draft, in baseline decode steps, >= 0.
        verify_cost: the target over k + 1 positions, in baseline decode steps, > 0. It is 1 only while
            decoding is bound by memory: measure it at the batch size in question.
        parallel: one pass drafts all k tokens (P-EAGLE); otherwise there are k passes.

    Raises:
        ValueError: if an argument is out of range.
    """
    if k < 0 or draft_cost < 0.0 or verify_cost <= 0.0:
        raise ValueError(f"need k, draft_cost >= 0, verify_cost > 0, got {k=}, {draft_cost=}, {verify_cost=}")
    if k == 0:
        return 1.0
    return verify_cost + (1 if parallel else k) * draft_cost


def speedup(
    acceptance_length: float, k: int, draft_cost: float, verify_cost: float = 1.0, parallel: bool = False
) -> float:
    """Speed over the baseline: tokens per step divided by the step's cost (see `step_cost`); < 1 is a loss.

    Raises:
        ValueError: if the acceptance length is outside [1, k + 1], or a cost is out of range.

    Source: Leviathan et al. 2023, theorem 3.8, with a verification cost of its own.
    """
    if not 1.0 <= acceptance_length <= k + 1:
        raise ValueError(f"an acceptance length lies in [1, k + 1], got {acceptance_length=}, {k=}")
    return acceptance_length / step_cost(k, draft_cost, verify_cost, parallel)


def best_k(
    alpha: float, draft_cost: float, k_max: int, verify_cost: float = 1.0, parallel: bool = False
) -> int:
    """Draft tokens per step, 0..k_max, with the highest expected speed-up; 0 means: do not speculate.

    `verify_cost` is taken as the same for every k >= 1. Ties go to the smaller k.

    Raises:
        ValueError: if an argument is out of range.
    """
    if k_max < 0:
        raise ValueError(f"need k_max >= 0, got {k_max}")

    def gain(k: int) -> float:
        return speedup(expected_acceptance_length(alpha, k), k, draft_cost, verify_cost, parallel)

    return max(range(k_max + 1), key=gain)


def alpha_from_acceptance_length(length: float, k: int) -> float:
    """The i.i.d. acceptance probability that would give this acceptance length.

    Args:
        length: tokens/step, in [1, k + 1].
        k: draft tokens per step, >= 1.

    Returns:
        alpha in [0, 1]. A summary: real acceptance falls or rises with the position (see
        `acceptance.conditional`).

    Raises:
        ValueError: if the length cannot occur at this k.
    """
    if k < 1 or not 1.0 <= length <= k + 1:
        raise ValueError(f"need k >= 1 and a length in [1, k + 1], got {length=}, {k=}")
    return float(brentq(lambda alpha: expected_acceptance_length(alpha, k) - length, 0.0, 1.0))
