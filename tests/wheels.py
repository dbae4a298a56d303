"""Small wheels, written where pip looks for them while it reaches no index."""

import json
import zipfile
from pathlib import Path

import pytest


def only_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip see this folder, and no index."""
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def wheel(folder: Path, name: str, members: dict[str, str]) -> str:
    """Write version 1.0 of a package with these files; returns its requirement."""
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in (members | {f"{name}-1.0.dist-info/{k}": v for k, v in about.items()}).items():
            archive.writestr(path, text)
    return f"{name}==1.0"


def sharegpt(*said: str) -> str:
    """A file of ShareGPT's form with these openings, a continuation, and an end in the middle of a string."""
    rows = [
        {"id": f"a{i}_0", "conversations": [{"from": "human", "value": text}]} for i, text in enumerate(said)
    ]
    goes_on = {"id": "a0_1", "conversations": [{"from": "human", "value": "And then?"}]}
    return json.dumps([*rows, goes_on, {"id": "cut_0", "conversations": []}])[:-30]
