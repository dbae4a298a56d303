"""What to measure. In: a parameter file or a notebook's parameters. Out: a Plan, and from it the points."""

from specbook.config.chapter import Chapter
from specbook.config.notebook import from_notebook
from specbook.config.plan import Plan
from specbook.config.plan_files import (
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
from specbook.config.pricing import CostPlan
from specbook.config.yaml_files import read_file

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
