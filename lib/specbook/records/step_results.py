"""What a step's time goes into, as the experiment's records keep it."""

from specbook.config.schema import Frozen


class Variant(Frozen):
    """One way to run the engine."""

    name: str
    """Name in the plan; the first variant is the engine as chapters run it."""
    length: float
    """Tokens a step, bonus token included; 1 without speculation."""
    step_s: tuple[float, ...]
    """Median of each turn, with the profiler off; turns of the same place were taken together."""
    profiled_step_s: float
    """Median with the profiler on: what it costs is the difference."""
    parts: dict[str, float]
    """Part of a step -> its share, of the steps that were profiled."""


class Stepped(Frozen):
    """Steps of one method at one batch of one sequence."""

    variants: tuple[Variant, ...]
