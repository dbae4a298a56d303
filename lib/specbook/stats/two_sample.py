"""Are two sets of sampled answers drawn from one distribution? A permutation test on their tokens.

An answer is one draw: whole answers change sides, within their prompt, so that the test is exact whatever
depends on what inside an answer. Source: Gretton et al., A Kernel Two-Sample Test, JMLR 13, 2012.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Answers = Sequence[Sequence[int]]
"""Token ids of the answers to one prompt."""


class TwoSample(NamedTuple):
    """A permutation test's outcome."""

    statistic: float
    """The larger, the further apart; of no use but in comparison with its permutations."""
    p_value: float
    """Probability of one at least as large if both sides sample from one distribution."""
    num_answers: int
    """Answers of both sides together."""


def two_sample(
    a: Sequence[Answers], b: Sequence[Answers], permutations: int = 999, seed: int = 0
) -> TwoSample:
    """Compare how often each token, and each pair of neighbours, stands at each place of the answers.

    The statistic is the sum of (share in a - share in b)^2 over all of these, and over the prompts: the
    squared maximum mean discrepancy whose kernel counts the tokens and pairs that two answers share. A
    chi-squared, which divides by the counts, hears mostly the many tokens that are rare, and misses more.

    Args:
        a: for each prompt, its answers by the one side.
        b: by the other side, the prompts in the same order; a prompt may have another number of answers.
        permutations: the p-value is at least 1 / (permutations + 1).
        seed: of the permutations.

    Raises:
        ValueError: if there are no prompts, not the same number of them, or a prompt without answers.
    """
    if not a or len(a) != len(b) or not all(map(len, (*a, *b))):
        raise ValueError(f"need answers of both sides to the same prompts, got {len(a)} and {len(b)} prompts")
    rng = np.random.default_rng(seed)
    totals = sum(
        _statistics(_seen([*left, *right]), len(left), permutations, rng)
        for left, right in zip(a, b, strict=True)
    )
    as_far = np.count_nonzero(totals[1:] >= totals[0] * (1 - 1e-9))  # the same split again, rounded otherwise
    return TwoSample(float(totals[0]), (1 + as_far) / (1 + permutations), sum(map(len, (*a, *b))))


def _seen(answers: Answers) -> NDArray[np.float32]:
    """[answers, features] 1 where an answer has this token, or pair, at this place; those of one answer alone
    are left out: they add the same to every split."""
    columns: dict[tuple[int, ...], list[int]] = {}
    for row, tokens in enumerate(answers):
        for place, token in enumerate(tokens):
            columns.setdefault((place, token), []).append(row)
            if place:
                columns.setdefault((place, tokens[place - 1], token), []).append(row)
    shared = [rows for rows in columns.values() if len(rows) > 1]
    table = np.zeros((len(answers), len(shared)), dtype=np.float32)
    for column, rows in enumerate(shared):
        table[rows, column] = 1
    return table


def _statistics(
    table: NDArray[np.float32], first: int, permutations: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """[1 + permutations] the statistic of one prompt: as sampled, then with its answers dealt out anew."""
    sides = np.tile(np.arange(len(table)) < first, (1 + permutations, 1))
    sides[1:] = rng.permuted(sides[1:], axis=1)
    weights = np.where(sides, 1 / first, -1 / (len(table) - first))
    shared = (table @ table.T).astype(np.float64)  # by each two answers: far smaller than the table
    return np.einsum("pi,pi->p", weights @ shared, weights)
