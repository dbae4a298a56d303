"""A real server. In: a target and how to speculate. Out: a running server, its counters and its last words.

Every folder here is an engine and is imported, so to add an engine is to add its folder: see `engine.base`.
"""

from importlib import import_module
from pkgutil import iter_modules

from specbook.engine.base import for_target, known, load_tool

__all__ = ["for_target", "import_all", "known", "load_tool"]


def import_all() -> None:
    """Import every folder here: each registers its engine."""
    for module in iter_modules(__path__):
        if module.ispkg:
            import_module(f"{__name__}.{module.name}")


import_all()
