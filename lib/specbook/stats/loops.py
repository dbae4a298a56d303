"""Answers that repeat themselves until the output cap: a greedy model that has caught itself in a loop."""

from functools import lru_cache

TIMES = 6
"""Whole repetitions of a unit: a table, an array or a block of code may have two or three rows alike."""
LEAST_CHARACTERS = 80
"""Least length of the repetition: a rule of dashes, an indent or a row of zeros is shorter."""


@lru_cache(maxsize=65_536)  # greedy arms and restarts repeat each other's answers
def repeats(text: str) -> bool:
    """Whether the text ends in a unit of any length that stands there TIMES or more, one after the other.

    The last repetition may be cut off, as a cap does. Whatever closes a list, a table or a block after its
    last row ends the repetition, so that an answer that stopped by itself rarely counts. A loop that counts
    upwards does not repeat a unit, and is not seen.
    """
    lengths = _periodic_suffixes(text)
    return any(n >= max(LEAST_CHARACTERS, TIMES * period) for n, period in lengths)


def _periodic_suffixes(text: str) -> list[tuple[int, int]]:
    """(length, smallest period) of each suffix, by the prefix function of the reversed text."""
    backwards = text[::-1]
    border, found = [0] * len(text), []
    for i in range(1, len(text)):
        k = border[i - 1]
        while k and backwards[i] != backwards[k]:
            k = border[k - 1]
        border[i] = k + (backwards[i] == backwards[k])
        found.append((i + 1, i + 1 - border[i]))
    return found
