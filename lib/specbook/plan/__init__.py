"""What to measure. In: a parameter file or a notebook's parameters. Out: a Plan, and from it the points."""

from specbook.plan.chapter import Chapter
from specbook.plan.cost import CostPlan
from specbook.plan.files import (
    GROUPS,
    AnyPlan,
    Source,
    build,
    chapters,
    file,
    hardwares,
    in_book,
    load,
    sweeps,
)
from specbook.plan.notebook import from_notebook
from specbook.plan.plan import Plan
from specbook.plan.reading import read_file

__all__ = [
    "GROUPS",
    "AnyPlan",
    "Chapter",
    "CostPlan",
    "Plan",
    "Source",
    "build",
    "chapters",
    "file",
    "from_notebook",
    "hardwares",
    "in_book",
    "load",
    "read_file",
    "sweeps",
]
