"""When to stop drafting, and when to begin again: two thresholds, a window, and a rest after each change.

In: what the counters of the drafting server grew by. Out: which server new requests should go to. One
threshold would be crossed again and again by noise; so there are two, and what lies between changes nothing.
"""

from collections import deque
from typing import NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from specbook.config.schema import Frozen


class Policy(Frozen):
    """The numbers of a fallback. Lengths are acceptance lengths, bonus token included."""

    model_config = ConfigDict(allow_inf_nan=False)

    leave_below: float = Field(ge=1)
    """Mean length of the window below which drafting stops. A draft breaks even at its length over its
    speed-up, which is what a step costs: below the least that any traffic has, drafting pays on none."""
    return_above: float = Field(ge=1)
    """Above the greatest, it pays on all."""
    window_s: float = Field(gt=0)
    """What the mean is taken over, or as much longer as `min_drafts` take: a trial yields few a second."""
    min_drafts: int = Field(ge=1)
    """Fewer say nothing."""
    cool_down_s: float = Field(ge=0)
    """After a change, until the next may come."""
    trial_every: int = Field(ge=2)
    """While others serve, each so-many-th request goes to the drafting server: nobody else would know when
    acceptance is back."""

    @model_validator(mode="after")
    def _two_thresholds(self) -> Self:
        if self.return_above <= self.leave_below:
            raise ValueError(
                f"return_above must lie above leave_below, got {self.return_above} and {self.leave_below}: "
                "with one threshold, noise would switch back and forth"
            )
        return self


class Switch(NamedTuple):
    """A change of mind."""

    at_s: float
    drafting: bool
    length: float
    """Mean acceptance length of the window that caused it."""


class Fallback:
    """Told the growth of the counters again and again, it says whether to draft; at first, yes."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._window: deque[tuple[float, float, float]] = deque()
        self.drafting = True
        self.switches: list[Switch] = []

    def see(self, now_s: float, drafts: float, accepted: float) -> bool:
        """Drafts, and accepted tokens, since the last call; returns whether to draft for new requests.

        Without news it stays as it is: metrics that vanish are no reason to change.
        """
        if not drafts:
            return self.drafting
        policy = self._policy
        oldest_s = now_s - policy.window_s
        self._window.append((now_s, drafts, accepted))
        seen = sum(row[1] for row in self._window)
        while self._window[0][0] <= oldest_s and seen - self._window[0][1] >= policy.min_drafts:
            seen -= self._window.popleft()[1]
        resting = self.switches and now_s - self.switches[-1].at_s < policy.cool_down_s
        if seen < policy.min_drafts or resting:
            return self.drafting
        length = 1 + sum(row[2] for row in self._window) / seen
        if length < policy.leave_below if self.drafting else length > policy.return_above:
            self.drafting = not self.drafting
            self.switches.append(Switch(now_s, self.drafting, length))
            self._window.clear()  # what it held was said by the traffic before
        return self.drafting
