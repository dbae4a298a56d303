"""What the experiments of drift keep: counters as they were read, and the requests that moved them.

Seconds count from the first request of a window.
"""

from typing import Literal

from specbook.config.schema import Frozen

ArmName = Literal["fallback", "drafting", "plain"]


class Readings(Frozen):
    """A server's acceptance counters, read again and again, [n]; None where it gave no answer."""

    at_s: tuple[float, ...]
    num_drafts: tuple[int | None, ...]
    num_accepted_tokens: tuple[int | None, ...]


class Requests(Frozen):
    """Those that were answered, [n], in the order in which they were sent."""

    start_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    e2e_s: tuple[float, ...]
    output_tokens: tuple[int, ...]
    sent: int
    """All of them: those beyond n were lost."""


class Episode(Frozen):
    """One window of traffic."""

    drift_s: tuple[float, ...]
    """When the first request of each further phase was sent; empty where nothing drifts."""
    readings: Readings
    requests: Requests


class Drifted(Frozen):
    """Episodes on one server."""

    episodes: tuple[Episode, ...]
    weights_sha256: dict[str, str]


class Switched(Frozen):
    """A change of the server that new requests go to."""

    at_s: float
    drafting: bool
    length: float
    """Acceptance length of the window that caused it."""
    in_flight: dict[str, int]
    """Requests by server, of which none may be lost."""


class Arm(Frozen):
    """The same traffic through the same router: with the policy, or always to one of the two servers."""

    arm: ArmName
    repeat: int
    episode: Episode
    switches: tuple[Switched, ...]
    served: dict[str, int]
    """Answers that were passed on whole, by server."""
    broken: int
    """Answers that broke off."""


class FallenBack(Frozen):
    """All arms of all repeats, in the order in which they were measured."""

    arms: tuple[Arm, ...]
    weights_sha256: dict[str, str]
