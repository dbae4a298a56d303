"""A draft's own acceptance beside the same rates played, as the experiment's records keep it."""

from specbook.config.schema import Frozen


class Arm(Frozen):
    """One server at one batch; tuples are [turns], and turns of the same place were taken together."""

    rates: tuple[float, ...]
    """Joint acceptance by position, over all turns."""
    length: tuple[float, ...]
    """Tokens a step, bonus token included."""
    step_s: tuple[float, ...]
    """Median gap between chunks of the stream."""
    tpot_s: tuple[tuple[float, ...], ...]
    """TPOT of each request, by turn: seconds a token behind the first."""


class Pair(Frozen):
    """Both ways at one batch."""

    concurrency: int
    real: Arm
    """The draft is verified by the target."""
    played: Arm
    """The same servers' work, and each draft token accepted by chance at the rates that were set."""


class Played(Frozen):
    """One method on one kind of traffic."""

    rates: tuple[float, ...]
    """What was set: the real draft's joint acceptance, counted before."""
    pairs: tuple[Pair, ...]
