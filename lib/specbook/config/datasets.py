"""Public data sets of prompts, by name: which file, at which revision, its licence and its digest.

All of it stands in `params/datasets.yaml`. A data set is fetched when it is first asked for, kept below
`build/`, and its digest is compared each time that it is used.
"""

import hashlib
import os
from pathlib import Path

import httpx
from pydantic import Field, ValidationError

from specbook import paths
from specbook.config.schema import Frozen, Name
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain

TIMEOUT_S = 60


class DataSet(Frozen):
    """One file of one revision."""

    title: Name
    url: str | None = Field(default=None, pattern=r"^https://")
    """URL of the file at its revision; None where its makers have it put together on one's own machine."""
    made_by: str | None = None
    """What puts it together, where nothing can be downloaded."""
    revision: str | None = None
    """Commit of the repository that the file is in."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    licence: str
    source: str = Field(pattern=r"\S")
    """Who made it: the paper."""
    file: str = Field(pattern=r"^[\w.-]+$")
    """Its name below `build/datasets/`; its suffix says how it is read."""


def known() -> dict[str, DataSet]:
    """Every data set, by name; none where the project lists none."""
    if not _list().is_file():
        return {}
    try:
        return {name: DataSet.model_validate(body) for name, body in read_file(_list()).items()}
    except ValidationError as error:
        raise ConfigError(f"{_list()}: {explain(error, DataSet)}") from error


def _list() -> Path:
    return paths.params_dir() / "datasets.yaml"


def path(name: str) -> Path:
    """Where the data set of this name lies; downloaded if it is not there.

    Raises:
        ConfigError: if it cannot be had, or is not the file that `params/datasets.yaml` describes.
    """
    wanted = known()[name]
    where = paths.scratch("datasets") / wanted.file
    if not where.is_file():
        _download(wanted, where)
    check(wanted, where)
    return where


def check(wanted: DataSet, where: Path) -> None:
    """Raise ConfigError unless the file at `where` has the digest that is written down, if one is."""
    if wanted.sha256 is None:
        return
    with where.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted.sha256:
        raise ConfigError(
            f"{where} is not {wanted.title} at its pinned revision: its SHA-256 is {found[:12]}..., "
            f"params/datasets.yaml wants {wanted.sha256[:12]}...: remove it, and it is fetched again"
        )


def _download(wanted: DataSet, where: Path) -> None:
    if wanted.url is None:
        raise ConfigError(
            f"{wanted.title} cannot be downloaded: make it ({wanted.made_by}), and put it at {where}"
        )
    partial = where.with_name(f".{where.name}-{os.getpid()}")
    try:
        with httpx.stream("GET", wanted.url, follow_redirects=True, timeout=TIMEOUT_S) as answer:
            answer.raise_for_status()
            with partial.open("wb") as file:
                for piece in answer.iter_bytes():
                    file.write(piece)
        check(wanted, partial)
        partial.replace(where)
    except httpx.HTTPError as error:
        why = str(error).partition("\n")[0]
        raise ConfigError(
            f"{wanted.title} cannot be fetched ({why}): download {wanted.url} to {where}"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
