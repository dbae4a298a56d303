"""What to measure. In: a parameter file or a notebook's parameters. Out: a Plan, and from it the points."""

from specbook.config.chapter import Chapter, CostPlan
from specbook.config.machines import hardwares
from specbook.config.plan import AnyPlan, Plan
from specbook.config.plan_files import (
    GROUPS,
    Source,
    build,
    chapters,
    file,
    from_notebook,
    in_book,
    load,
    sweeps,
)
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
