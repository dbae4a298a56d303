"""Where the project's folders are, whatever the working directory."""

import os
from pathlib import Path


def root() -> Path:
    """The project's top folder: `SPECBOOK_ROOT`, else the one above `lib/` that holds this package."""
    return Path(os.environ.get("SPECBOOK_ROOT") or Path(__file__).resolve().parents[2])


def params_dir() -> Path:
    """Plans, one folder per hardware."""
    return root() / "params"


def results_dir() -> Path:
    """Records, append-only: `<hardware-id>/<chapter>/<run-id>.json`."""
    return Path(os.environ.get("SPECBOOK_RESULTS") or root() / "results")


def models_dir() -> Path:
    """The pocket models, their held-out prompts and their card."""
    return root() / "models"


def notebooks_dir() -> Path:
    """Chapter notebooks, outputs stripped."""
    return root() / "notebooks"


def build_dir() -> Path:
    """Everything that can be made again: logs, caches, training scratch."""
    return root() / "build"
