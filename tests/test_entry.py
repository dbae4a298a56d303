"""Ctrl-C is one message, however early it comes."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# An import that takes its time tells us that it has begun.
SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
sys.argv = ["specbook", "doctor"]
from specbook.entry import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "specbook.cli", "specbook.doctor"])
def test_an_interrupt_while_modules_are_imported_is_one_message(module):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(module=module)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "specbook: interrupted.\n"


def test_the_command_begins_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["specbook"] == "specbook.entry:main"
