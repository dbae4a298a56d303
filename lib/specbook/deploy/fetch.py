"""Fill the model cache once per revision; check it before a server starts.

A model lies in `<cache>/<revision>`. The marker beside its files is written last and holds their SHA-256:
without it the folder counts as half-written. `python -m specbook.deploy.fetch` runs in the fetch Job and, to
check, in the server's init container.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from specbook.errors import ConfigError, SpecbookError

MARKER = ".specbook-complete.json"
REVISION = re.compile(r"[0-9a-f]{40}")
Download = Callable[[str, str, Path], None]
"""Repository, revision, folder."""


def models(environment: Mapping[str, str]) -> dict[str, str]:
    """Revision to repository of what models.env names: the target, and a draft where there is one.

    Raises:
        ConfigError: if a variable is missing, or a revision is no commit.
    """
    repositories = {}
    for role in ("TARGET", "DRAFT"):
        repository, revision = environment.get(f"{role}_REPO"), environment.get(f"{role}_REVISION")
        if role == "TARGET" and not repository:
            raise ConfigError(
                "TARGET_REPO is not set: the ConfigMap specbook-models should hold it (models.env)"
            )
        if repository:
            if not REVISION.fullmatch(revision or ""):
                raise ConfigError(f"{role}_REVISION is {revision!r}: set the 40-digit commit of {repository}")
            repositories[revision] = repository
    return repositories


def sha256(path: Path) -> str:
    """Digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def from_hub(repository: str, revision: str, folder: Path) -> None:
    """Download a repository's files, and compare the large ones with the digests that the hub states.

    Raises:
        ConfigError: if there is no such repository or revision, the hub goes out of reach on the way, or a
            file is not what the hub says.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        snapshot_download(repository, revision=revision, local_dir=folder)
        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
    except RevisionNotFoundError as error:
        raise ConfigError(f"{repository} has no revision {revision}: fix models.env") from error
    except RepositoryNotFoundError as error:
        raise ConfigError(f"the hub has no {repository} that you may read: fix models.env") from error
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise ConfigError(
            f"{repository} did not arrive whole ({type(error).__name__}: {error}): run again, and what has "
            "arrived is kept"
        ) from error
    for entry in info.siblings or []:
        stated = entry.lfs.sha256 if entry.lfs else None
        if stated and sha256(folder / entry.rfilename) != stated:
            (folder / entry.rfilename).unlink()
            raise ConfigError(f"{entry.rfilename} of {repository} arrived damaged: it was removed, run again")


def fetch(cache: Path, environment: Mapping[str, str], download: Download = from_hub) -> list[str]:
    """Bring what is missing into the cache; says what was done, one line a model."""
    done = []
    for revision, repository in models(environment).items():
        folder = cache / revision
        if is_complete(folder, repository):
            done.append(f"{repository} at {revision}: in the cache")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        download(repository, revision, folder)
        seal(folder, repository)
        done.append(f"{repository} at {revision}: fetched")
    return done


def seal(folder: Path, repository: str) -> None:
    """Write the marker, whole or not at all; it leaves out hidden files, the downloader's own among them."""
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = (name for name in names if not any(part.startswith(".") for part in name.parts))
    digests = {name.as_posix(): sha256(folder / name) for name in shown}
    scratch = folder / f"{MARKER}.part"
    scratch.write_text(json.dumps({"repository": repository, "sha256": digests}, indent=1))
    os.replace(scratch, folder / MARKER)


def is_complete(folder: Path, repository: str) -> bool:
    """Whether the marker is there and names this repository."""
    marker = folder / MARKER
    return marker.is_file() and json.loads(marker.read_text())["repository"] == repository


def check(cache: Path, environment: Mapping[str, str]) -> list[str]:
    """What a server may load; ConfigError if a file is missing. Reads no weights: a start stays fast."""
    done = []
    for revision, repository in models(environment).items():
        folder = cache / revision
        if not is_complete(folder, repository):
            raise ConfigError(
                f"{repository} at {revision} is not in the cache: wait for the Job specbook-fetch "
                "(kubectl -n specbook logs job/specbook-fetch)"
            )
        for name in json.loads((folder / MARKER).read_text())["sha256"]:
            if not (folder / name).is_file():
                raise ConfigError(
                    f"{name} of {repository} has gone from the cache: remove {folder} and fetch again"
                )
        done.append(f"{repository} at {revision}: complete")
    return done


def wait(cache: Path, environment: Mapping[str, str], timeout_s: float) -> list[str]:
    """`check`, again and again until it holds; ConfigError, its own, when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return check(cache, environment)
        except ConfigError as error:
            if time.monotonic() >= deadline:
                raise
            print(error, flush=True)
            time.sleep(5)


def main(arguments: list[str] | None = None) -> int:
    """The command line: `fetch` or `check`, with models.env in the environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("fetch", "check"))
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--wait", type=float, default=0, help="seconds that `check` waits for a fetch")
    given = parser.parse_args(arguments)
    try:
        if given.action == "fetch":
            done = fetch(given.cache, os.environ)
        else:
            done = wait(given.cache, os.environ, given.wait)
        print("\n".join(done))
    except SpecbookError as error:
        print(f"specbook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
