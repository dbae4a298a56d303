"""Does speculation change the answers? Token equality against a baseline-vs-baseline control, and accuracy.

Greedy speculation is exact in exact arithmetic. In bfloat16 a batch of K + 1 positions rounds differently
from one position, and where two tokens are nearly tied the answer forks; so does the baseline when only its
execution mode changes. Three findings together show losslessness: speculation forks no more often than that
control, it forks where the two tokens' logits are nearly equal, and the answers are right as often.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

from pydantic import Field
from scipy import stats

from specbook.config import Frozen
from specbook.estimate import Estimate
from specbook.stats import wilson


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

    def share_equal(self) -> Estimate:
        """Share of equal answers with Wilson's interval."""
        return wilson(self.equal, self.n)


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
    settled by rounding. None where an answer had ended, or it was not computed.
    """


class Comparison(Frozen):
    """Whether speculation diverges more often than the control does."""

    speculation: Estimate
    """Share of prompts whose answer differs from the baseline's."""
    control: Estimate
    """The same for the baseline in another execution mode."""
    p_value: float
    """One-sided: chance of at least this excess if both diverged equally often. A large one is no proof of
    equality; read it beside both intervals and the margins.
    """
    test: Literal["mcnemar-exact", "fisher-exact"]


def first_divergence(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Index of the first difference of two token lists or texts; the shorter length if one is a prefix."""
    end = object()
    pairs = zip_longest(a, b, fillvalue=end)
    return next((i for i, (left, right) in enumerate(pairs) if left != right), None)


def compare(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]]) -> Equality:
    """Two arms' answers to the same prompts in the same order, as token ids (or texts).

    Raises:
        ValueError: if the arms answered a different number of prompts, or none.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"need the same prompts in both arms, got {len(a)} and {len(b)} answers")
    found = tuple(first_divergence(left, right) for left, right in zip(a, b, strict=True))
    return Equality(n=len(found), equal=found.count(None), first_divergence_index=found)


def divergences(
    prompt_ids: Sequence[str], a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]
) -> list[Divergence]:
    """Where the answers part, one per prompt whose token ids differ; margins are left for `greedy.margins`.

    Raises:
        ValueError: if the three differ in length.
    """
    indices = compare(a, b).first_divergence_index

    def token(ids: Sequence[int], index: int) -> int | None:
        return ids[index] if index < len(ids) else None

    return [
        Divergence(prompt_id=name, index=index, token_a=token(left, index), token_b=token(right, index))
        for name, index, left, right in zip(prompt_ids, indices, a, b, strict=True)
        if index is not None
    ]


def against_control(speculation: Sequence[bool], control: Sequence[bool], paired: bool = True) -> Comparison:
    """Test whether speculation diverges more often than the control.

    Args:
        speculation: per prompt, whether its answer differs from the baseline's.
        control: the same for the baseline in another execution mode.
        paired: the same prompts in the same order (McNemar's exact test); else Fisher's exact test.

    Raises:
        ValueError: if either is empty, or `paired` and their lengths differ.
    """
    if not len(speculation) or not len(control) or (paired and len(speculation) != len(control)):
        raise ValueError(
            f"need prompts in both (the same, if paired), got {len(speculation)}, {len(control)}"
        )
    p_value = _mcnemar(speculation, control) if paired else _fisher(speculation, control)
    return Comparison(
        speculation=wilson(sum(speculation), len(speculation)),
        control=wilson(sum(control), len(control)),
        p_value=p_value,
        test="mcnemar-exact" if paired else "fisher-exact",
    )


def _mcnemar(speculation: Sequence[bool], control: Sequence[bool]) -> float:
    only_speculation = sum(s and not c for s, c in zip(speculation, control, strict=True))
    only_control = sum(c and not s for s, c in zip(speculation, control, strict=True))
    discordant = only_speculation + only_control
    if not discordant:
        return 1.0
    return float(stats.binomtest(only_speculation, discordant, 0.5, alternative="greater").pvalue)


def _fisher(speculation: Sequence[bool], control: Sequence[bool]) -> float:
    table = [[sum(arm), len(arm) - sum(arm)] for arm in (speculation, control)]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


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


def largest_margin(found: Iterable[Divergence]) -> float | None:
    """The largest |margin| among divergences, in logits; None if none was computed."""
    return max((abs(d.margin_logits) for d in found if d.margin_logits is not None), default=None)
