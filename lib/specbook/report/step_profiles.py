"""Experiments on a step, of appendices that have a plan and no chapter, as chapters 3 and 5 show them."""

from specbook import config
from specbook.bench import experiments
from specbook.records.experiment import ExperimentRecord
from specbook.records.step_results import Stepped
from specbook.report.figures import style

DENSE = "appendix_step"
MIXTURE = "appendix_mixture_step"
"""Has the dense target too, in the same precision."""


def kept(hardware: str, appendix: str = DENSE) -> list[tuple[ExperimentRecord, Stepped]]:
    """What is on record of this hardware's full plan; nothing where it has none."""
    if not config.file(appendix, hardware).is_file():
        return []
    return experiments.replay(config.load(appendix, hardware, "full"), partial=True)


def said(found: list[tuple[ExperimentRecord, Stepped]], appendix: str = DENSE) -> str:
    """Whose numbers they are, or that there are none and what measures them."""
    if not found:
        return f"not measured yet on this hardware: specbook run {appendix}"
    return style.credit_experiments(found, "shares by the engine's profiler, times without it")
