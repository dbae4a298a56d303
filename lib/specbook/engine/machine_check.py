"""One thing that was looked for on this machine."""

import importlib.metadata
import shutil
from typing import Self

from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """One thing that was looked for."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """What was looked for."""
    ok: bool | None
    """True: all is well. False: missing or wrong, and needed. None: missing, and optional."""
    found: str
    """Its version or place, or what is there instead."""
    fix: str
    """What fixes it, as a command where there is one; empty when all is well."""

    @classmethod
    def of(cls, name: str, ok: bool | None, found: str, fix: str) -> Self:
        """A check whose fix is only told when it is needed."""
        return cls(name=name, ok=ok, found=found, fix="" if ok else fix)

    @classmethod
    def needed(cls, name: str, found: object, fix: str) -> Self:
        """Something without which nothing works; `found` is None where it is missing."""
        return cls.of(name, found is not None, str(found or "none"), fix)

    @classmethod
    def optional(cls, name: str, found: object, fix: str) -> Self:
        """Something that helps; `found` is None where it is missing."""
        return cls.of(name, True if found else None, str(found or "none"), fix)


def which(*commands: str) -> str | None:
    """Where the first of these commands lies."""
    return next((path for command in commands if (path := shutil.which(command))), None)


def version(distribution: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
