"""What is recorded or shown names no folder of this machine, and nothing else is changed."""

import os
import pwd
import sys

import pytest

from specbook import paths
from specbook.errors import ConfigError

PAGE = "<td>1/2</td> see https://a.org/x, /usr/bin and </td>"


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Sets HOME; the project lies in a folder of its own."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path / "project"))

    def be(path):
        if path is None:
            monkeypatch.delenv("HOME")
        else:
            monkeypatch.setenv("HOME", path)

    return be


@pytest.mark.parametrize("path", ["/", "", "//"])
def test_a_home_that_is_the_root_changes_nothing(home, path):
    home(path)
    assert paths.portable(PAGE) == PAGE


def test_a_user_without_a_home_has_none_to_hide(home, monkeypatch):
    def unknown(_):
        raise KeyError("uid not found")

    home(None)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert paths.portable(PAGE) == PAGE


@pytest.mark.parametrize("text", ["a file", None])
def test_scratch_that_cannot_be_written_is_one_message(home, tmp_path, monkeypatch, text):
    folder = tmp_path / "project" / "build"
    folder.parent.mkdir()
    if text:
        folder.write_text(text)
    else:
        monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r"cannot write .*build/logs .*so make it writable"):
        paths.scratch("logs")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("log: /users/me/a.log", "log: ~/a.log"),
        ("--model=/users/me", "--model=~"),
        ("'/users/me'.", "'~'."),
        ("/users/me-too/a", "/users/me-too/a"),
        ("/users/median", "/users/median"),
        ("/mnt/users/me/a", "/mnt/users/me/a"),
    ],
)
def test_only_whole_folders_are_replaced(home, text, want):
    home("/users/me")
    assert paths.portable(text) == want


def test_the_project_is_a_dot_even_below_the_home(home, tmp_path):
    home(str(tmp_path))
    assert paths.portable(f"{tmp_path}/project/lib {tmp_path}/x") == f".{os.sep}lib ~/x"


def test_an_environment_elsewhere_is_a_portable_path(tmp_path, monkeypatch):
    elsewhere = tmp_path / "venvs" / "x"
    said = f"{elsewhere}/bin/python -m vllm"
    monkeypatch.setattr(sys, "prefix", str(elsewhere))
    assert paths.portable(said) == "$VIRTUAL_ENV/bin/python -m vllm"
    monkeypatch.setattr(sys, "base_prefix", str(elsewhere))  # the system's own Python
    assert paths.portable(said) == said
    monkeypatch.undo()
    monkeypatch.setattr(sys, "prefix", str(paths.root() / ".venv"))
    assert paths.portable(f"{paths.root()}/.venv/bin/python") == "./.venv/bin/python"
