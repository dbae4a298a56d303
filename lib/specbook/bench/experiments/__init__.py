"""Experiments that are no sweep of a server, one file each. In: parameters. Out: a result, kept as a record.

Every module of this folder is imported, so to add an experiment is to add its file: a model of its
parameters, one of its result, and a function from one to the other under `@register`.
"""

from importlib import import_module
from pkgutil import iter_modules

from specbook.bench.experiments.registry import (
    check,
    measure,
    missing,
    of_chapter,
    register,
    replay,
    unavailable,
    work,
)

__all__ = ["check", "measure", "missing", "of_chapter", "register", "replay", "unavailable", "work"]

for module in iter_modules(__path__):  # each registers its experiment
    import_module(f"{__name__}.{module.name}")
