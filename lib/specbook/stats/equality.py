"""Does speculation change the answers? Token equality against a baseline-vs-baseline control, accuracy, and
of sampled answers whether both sides are drawn from one distribution.

Greedy speculation is exact in exact arithmetic. In bfloat16 a batch of K + 1 positions rounds differently
from one position, and where two tokens are nearly tied the answer forks; so does the baseline when only its
execution mode changes. Three findings together show losslessness: speculation forks no more often than that
control, it forks where the two tokens' logits are nearly equal, and the answers are right as often.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from scipy import special

from specbook.config.schema import Frozen
from specbook.stats.estimate import Estimate, finite, wilson

Answers = Sequence[Sequence[int]]
"""Token ids of the answers to one prompt."""


class Equality(Frozen):
    """How many answers of two arms are the same, and where the others first differ."""

    n: int
    equal: int
    first_divergence_index: tuple[int | None, ...]
    """Per prompt, in tokens (or characters, when texts were compared); None where the answers are equal."""

    @property
    def diverged(self) -> tuple[bool, ...]:
        """Per prompt, whether the answers differ."""
        return tuple(index is not None for index in self.first_divergence_index)


class Divergence(Frozen):
    """Where one prompt's two answers part."""

    prompt_id: str
    index: int = Field(ge=0)
    """Tokens that both answers share before it."""
    token_a: int | None
    """None where answer a had already ended."""
    token_b: int | None
    margin_logits: float | None = None
    """How much higher the target itself rates a's token than b's after the shared prefix; near 0: a tie,
    settled by rounding. None where an answer had ended, or it was not asked. The serving engine rates them,
    in its own precision (in checks without a `MarginsRecord`: transformers, in float32).
    """


def first_divergence(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Index of the first difference of two token lists or texts; the shorter length if one is a prefix."""
    return next((i for i, (left, right) in enumerate(zip_longest(a, b)) if left != right), None)


def compare(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]]) -> Equality:
    """Two arms' answers to the same prompts in the same order, as token ids (or texts).

    Raises:
        ValueError: if the arms answered a different number of prompts, or none.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"need the same prompts in both arms, got {len(a)} and {len(b)} answers")
    divergences = tuple(first_divergence(left, right) for left, right in zip(a, b, strict=True))
    return Equality(n=len(divergences), equal=divergences.count(None), first_divergence_index=divergences)


def share_over_prompts(shares: ArrayLike) -> Estimate:
    """Mean of each prompt's share of equal answers, in [0, 1], with Wilson's interval at n = prompts.

    Raises:
        ValueError: if there is none, or one lies outside [0, 1].
    """
    each = finite(shares, "shares")
    if each.min() < 0 or each.max() > 1:
        raise ValueError(f"shares must lie in [0, 1], got {each.min():g} to {each.max():g}")
    return wilson(min(float(each.sum()), len(each)), len(each))


def divergences(
    prompt_ids: Sequence[str], a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]
) -> list[Divergence]:
    """Where the answers part, one per prompt whose token ids differ; margins come with a `MarginsRecord`.

    Raises:
        ValueError: if the three differ in length.
    """
    indices = compare(a, b).first_divergence_index
    return [
        Divergence(prompt_id=name, index=index, token_a=(*left, None)[index], token_b=(*right, None)[index])
        for name, index, left, right in zip(prompt_ids, indices, a, b, strict=True)
        if index is not None
    ]


def excess_p_value(speculation: Sequence[bool], control: Sequence[bool]) -> float:
    """Chance that speculation parts at least this much more often, if both did so equally often.

    McNemar's exact test, one-sided. A large value is no proof of equality: read it beside n and the margins.

    Args:
        speculation: per prompt, whether its answer differs from the baseline's.
        control: the same for the baseline in another execution mode, prompts in the same order.

    Raises:
        ValueError: if there are no prompts, or not the same number in both.
    """
    if not speculation or len(speculation) != len(control):
        raise ValueError(f"need the same prompts in both, got {len(speculation)} and {len(control)}")
    only_speculation = sum(s and not c for s, c in zip(speculation, control, strict=True))
    only_control = sum(c and not s for s, c in zip(speculation, control, strict=True))
    discordant = only_speculation + only_control
    if not discordant:
        return 1.0
    return float(special.bdtrc(only_speculation - 1, discordant, 0.5))


def accuracy(
    rows: Sequence[Mapping[str, Any]],
    texts: Sequence[str],
    checker: Callable[[Mapping[str, Any], str], bool],
) -> dict[str, Estimate]:
    """Share of acceptable answers per domain (`row["domain"]`), with Wilson's interval.

    Raises:
        ValueError: if rows and texts differ in length.
    """
    verdicts: dict[str, list[bool]] = {}
    for row, text in zip(rows, texts, strict=True):
        verdicts.setdefault(row["domain"], []).append(checker(row, text))
    return {domain: wilson(sum(passed), len(passed)) for domain, passed in verdicts.items()}


class TwoSample(NamedTuple):
    """A permutation test's outcome."""

    p_value: float
    """Probability of a statistic at least as large if both sides sample from one distribution."""
    num_answers: int
    """Answers of both sides together."""


def two_sample(
    a: Sequence[Answers], b: Sequence[Answers], permutations: int = 999, seed: int = 0
) -> TwoSample:
    """Compare how often each token, and each pair of neighbours, stands at each place of the answers.

    The statistic is the sum of (share in a - share in b)^2 over all of these, and over the prompts: the
    squared maximum mean discrepancy whose kernel counts the tokens and pairs that two answers share. A
    chi-squared, which divides by the counts, hears mostly the many tokens that are rare, and misses more.

    An answer is one draw: whole answers change sides, within their prompt, so that the test is exact whatever
    depends on what inside an answer.

    Args:
        a: for each prompt, its answers by the one side.
        b: by the other side, the prompts in the same order; a prompt may have another number of answers.
        permutations: the p-value is at least 1 / (permutations + 1).
        seed: of the permutations.

    Raises:
        ValueError: if there are no prompts, not the same number of them, or a prompt without answers.

    Source: Gretton et al., A Kernel Two-Sample Test, JMLR 13, 2012.
    """
    if not a or len(a) != len(b) or not all(map(len, (*a, *b))):
        raise ValueError(f"need answers of both sides to the same prompts, got {len(a)} and {len(b)} prompts")
    rng = np.random.default_rng(seed)
    totals = sum(
        _statistics(_seen([*left, *right]), len(left), permutations, rng)
        for left, right in zip(a, b, strict=True)
    )
    as_far = np.count_nonzero(totals[1:] >= totals[0] * (1 - 1e-9))  # the same split again, rounded otherwise
    return TwoSample((1 + as_far) / (1 + permutations), sum(map(len, (*a, *b))))


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
