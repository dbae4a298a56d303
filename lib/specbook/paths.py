"""Where the project's folders are, whatever the working directory."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from specbook.errors import ConfigError

_others: ContextVar[Path | None] = ContextVar("_others", default=None)


def root() -> Path:
    """The project's top folder: `SPECBOOK_ROOT`, else the one above `lib/` that holds this package."""
    return Path(os.environ.get("SPECBOOK_ROOT") or Path(__file__).resolve().parents[2])


def params_dir() -> Path:
    """Plans, one folder per hardware."""
    return root() / "params"


def results_dir() -> Path:
    """Records, append-only: `<hardware-id>/<chapter>/`, each in a file of its own until it is packed."""
    return _others.get() or Path(os.environ.get("SPECBOOK_RESULTS") or root() / "results")


@contextmanager
def results_of(folder: Path | None) -> Iterator[None]:
    """For as long as it lasts, `results_dir` is another checkout's; None: it stays what it is."""
    held = folder and folder / "results"
    token = _others.set(held if held and held.is_dir() else folder)
    try:
        yield
    finally:
        _others.reset(token)


def models_dir() -> Path:
    """The pocket models, their held-out prompts and their card."""
    return root() / "models"


def notebooks_dir() -> Path:
    """Chapter notebooks, outputs stripped."""
    return root() / "notebooks"


def build_dir() -> Path:
    """Everything that can be made again: logs, caches, training scratch."""
    return root() / "build"


def scratch(name: str) -> Path:
    """A folder below `build_dir`, made if it is not there.

    Raises:
        ConfigError: if nothing can be written there.
    """
    folder = build_dir() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        why = "it is read-only"
    except OSError as error:
        why = str(error.strerror)
    raise ConfigError(f"cannot write {folder} ({why}): logs and scratch files go there, so make it writable")


def at(name: str) -> Path:
    """Where a file or folder lies that a plan names: relative to the project, below `~`, or absolute."""
    return root() / os.path.expanduser(name)  # `~somebody` stays as it is where nobody has that name


def located(name: str) -> str | None:
    """How plans name what a user names, be it relative to the project or to the working directory.

    None if neither has it. What lies in the project or the home folder is named without where those lie.
    """
    for folder in (root(), Path.cwd()):
        path = Path(os.path.abspath(folder / os.path.expanduser(name)))
        if name and os.path.exists(path):  # False, and no error, for a name too long to be one
            inside = path.is_relative_to(root())
            return path.relative_to(root()).as_posix() if inside else portable(str(path))
    return None


def machine_lock() -> Path:
    """What all campaigns on this machine lock; never below TMPDIR, which may be one user's or one job's."""
    everyones = Path("/tmp")
    return (everyones if everyones.is_dir() else Path(tempfile.gettempdir())) / "specbook-measure.lock"


def portable(text: str) -> str:
    """`text` without this machine's folders: the project becomes `.`, the home folder `~`, a virtual
    environment elsewhere `$VIRTUAL_ENV`."""
    folders = [(root(), "."), (_home(), "~")]
    if sys.prefix != sys.base_prefix:
        folders.append((Path(sys.prefix), "$VIRTUAL_ENV"))
    for folder, name in folders:
        if len(folder.parts) > 1:  # with `/` for a home, as services have it, every path would be below it
            text = re.sub(rf"(?<![\w.~-]){re.escape(str(folder))}(?![\w-])", name, text)
    return text


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and a user that the system does not know
        return Path("/")
