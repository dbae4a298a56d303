"""Experiments on a step, of the appendix that has a plan and no chapter, as chapter 3 shows them."""

from specbook import plan
from specbook.book.figures import style
from specbook.measure import experiments
from specbook.records.experiment import ExperimentRecord
from specbook.records.stepped import Stepped

APPENDIX = "appendix_step"


def kept(hardware: str) -> list[tuple[ExperimentRecord, Stepped]]:
    """What is on record of this hardware's full plan; nothing where it has none."""
    if not plan.file(APPENDIX, hardware).is_file():
        return []
    return experiments.replay(plan.load(APPENDIX, hardware, "full"), partial=True)


def said(found: list[tuple[ExperimentRecord, Stepped]]) -> str:
    """Whose numbers they are, or that there are none and what measures them."""
    if not found:
        return f"not measured yet on this hardware: specbook run {APPENDIX}"
    return style.credit_experiments(found, "shares by the engine's profiler, times without it")
