"""How tokens are drafted, one file a method. In: a method's name and keys. Out: its title and its checks.

Every module of this folder is imported, so to add a method is to add its file.
"""

from importlib import import_module
from pkgutil import iter_modules

from specbook.config.checkpoint import Checkpoint
from specbook.config.methods.base import OF_EVERY_METHOD, Method, by_name, detect, known

__all__ = ["OF_EVERY_METHOD", "Checkpoint", "Method", "by_name", "detect", "import_all", "known"]


def import_all() -> None:
    """Import every file of this folder: each registers its method."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


import_all()
