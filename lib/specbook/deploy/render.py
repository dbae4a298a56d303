"""Overlay -> objects, by `kubectl kustomize`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from specbook import paths
from specbook.errors import ConfigError
from specbook.suggestions import near

Manifest = dict[str, Any]
TIMEOUT_S = 60


def overlays_dir() -> Path:
    """The overlays, one folder each."""
    return paths.root() / "deploy" / "overlays"


def overlay(name: str) -> Path:
    """The folder of an overlay: one of ours by name, or any folder with a kustomization.

    Raises:
        ConfigError: if there is neither.
    """
    known = sorted(path.name for path in overlays_dir().glob("*/") if (path / "kustomization.yaml").is_file())
    folder = overlays_dir() / name if name in known else Path(name)
    if not os.path.isfile(folder / "kustomization.yaml"):  # False where the name is too long for a file
        raise ConfigError(f"no overlay {name!r}{near(name, known)}")
    return folder


def kubectl() -> str:
    """The kubectl beside this Python, else the one on the path.

    Raises:
        ConfigError: if there is none.
    """
    beside = Path(sys.executable).with_name("kubectl")
    found = str(beside) if beside.is_file() else shutil.which("kubectl")
    if not found:
        raise ConfigError("kubectl is missing: `make setup` installs it beside Python")
    return found


def render(folder: Path) -> list[Manifest]:
    """The objects of a kustomization, in kustomize's order.

    Raises:
        ConfigError: if kustomize refuses it.
    """
    done = subprocess.run(
        [kubectl(), "kustomize", str(folder)], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("error: ")
        old = re.search(r"omponent|panic|unknown field|unsupported type", said)
        fix = ". To fix: `make setup` installs kubectl; overlays need 1.31, overlays/cpu 1.21" if old else ""
        raise ConfigError(f"kustomize refuses {folder}: {said.splitlines()[0]}{fix}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def title(manifest: Manifest) -> str:
    """Kind, namespace and name: `Deployment specbook/specbook-server`."""
    metadata = manifest.get("metadata", {})
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest.get('kind', '?')} {where}{metadata.get('name', '?')}"
