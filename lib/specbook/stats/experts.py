"""Experts that the tokens of a step touch: as a router's choices have them, or as independent draws would."""

import numpy as np
from numpy.typing import NDArray


def touched(num_experts: int, num_experts_per_token: int, tokens: int) -> float:
    """Distinct experts of a layer that `tokens` tokens reach, routed evenly and independently.

    E (1 - (1 - k/E)^tokens). Uneven routing, or tokens that agree on experts, touches fewer.

    Raises:
        ValueError: if a token takes more experts than there are, or a number is not positive.
    """
    if not 1 <= num_experts_per_token <= num_experts or tokens < 1:
        raise ValueError(
            f"need 1 <= num_experts_per_token <= num_experts and tokens >= 1, got {num_experts_per_token=}, "
            f"{num_experts=}, {tokens=}"
        )
    return num_experts * (1.0 - (1.0 - num_experts_per_token / num_experts) ** tokens)


def shares(chosen: NDArray[np.bool_], tokens: int) -> NDArray[np.float64]:
    """How often a step over `tokens` successive tokens of one sequence touches each expert.

    Args:
        chosen: [positions, layers, experts], true where a token takes an expert.
        tokens: in one step: 1 to decode, K + 1 to verify K draft tokens.

    Returns:
        [layers, experts], in [0, 1]; a rest too short for a step is left out.

    Raises:
        ValueError: if `tokens` is not positive, or there are fewer positions.
    """
    positions, layers, experts = chosen.shape
    steps = positions // tokens if tokens > 0 else 0
    if steps == 0:
        raise ValueError(f"need 1 <= tokens <= {positions}, the positions given, got {tokens}")
    return chosen[: steps * tokens].reshape(steps, tokens, layers, experts).any(axis=1).mean(axis=0)


def together(touching: NDArray[np.float64], batch: int) -> float:
    """Distinct experts of a layer that a step over `batch` sequences touches, each at a place of its own.

    That is a server's steady state: it puts a new sequence where one has ended. The mean is over layers, and
    over every choice of so many sequences: an expert stays untouched where all of them leave it alone.

    `touching` is [sequences, layers, experts], of `shares`.

    Raises:
        ValueError: if there are not so many sequences.
    """
    if not 1 <= batch <= len(touching):
        raise ValueError(f"need 1 <= batch <= {len(touching)}, the sequences given, got {batch}")
    # untouched[k]: the mean, over all choices of k of the sequences so far, of the product of their shares
    untouched = np.zeros((batch + 1, *touching.shape[1:]))
    untouched[0] = 1.0
    k = np.arange(1, batch + 1).reshape(-1, 1, 1)
    for seen, left in enumerate(1.0 - touching, start=1):
        untouched[1:] += np.minimum(k / seen, 1.0) * (left * untouched[:-1] - untouched[1:])
    return float((1.0 - untouched[batch]).sum(axis=-1).mean())
