"""Ctrl-C is one message, however early it comes; so is what the machine refuses, told as what it is."""

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from specbook.cli import entry, main

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
from specbook.cli.entry import main
main()
"""


def test_a_folder_on_the_path_is_enough_to_run_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "specbook", "run", "99_none"], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no chapter '99_none'" in done.stderr


@pytest.mark.parametrize("module", ["typer", "specbook.cli.main", "specbook.cli.doctor"])
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


@pytest.fixture(autouse=True)
def own_interrupts():
    """`main` takes Ctrl-C for the rest of its process; the tests go on."""
    held = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, held)


TWICE = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["specbook", "doctor"]
from specbook.cli import entry, main
def interrupted(): raise KeyboardInterrupt
main.app = interrupted
entry.main()
"""


def test_a_second_interrupt_changes_nothing():
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "specbook: interrupted.\n")


AGAIN = """
import os, signal, sys
sys.argv = ["specbook", "doctor"]
from specbook import console
from specbook.cli import entry
def strike(*_, **more):
    os.kill(os.getpid(), signal.SIGINT)
def stop():
    try: strike()
    finally: strike()
from specbook.cli import doctor
doctor.checks = stop
{report}
entry.main()
"""
REPORTS = {
    "before it is reported": "",
    "while it is reported": "console.err.print = strike",
    "each time it is reported": "console.err.print = strike; sys.stderr.write = strike",
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_second_interrupt_keeps_the_status(report):
    done = subprocess.run(
        [sys.executable, "-c", AGAIN.format(report=report)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


class NotFoundError(FileNotFoundError):
    """Of a library: an OSError by descent, with neither errno nor file."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            NotFoundError("no such entry in the hub's cache"),
            "NotFoundError: no such entry in the hub's cache",
        ),
        (ConnectionResetError(104, "reset by peer"), "ConnectionResetError: [Errno 104] reset by peer"),
        (BrokenPipeError(32, "Broken pipe"), "BrokenPipeError: [Errno 32] Broken pipe"),
        (PermissionError(13, "denied", "a/b"), "PermissionError: [Errno 13] denied: 'a/b'"),
    ],
)
def test_an_error_elsewhere_than_on_stdout_keeps_its_name(monkeypatch, capsys, error, said):
    def raises():
        raise error

    monkeypatch.setattr(main, "app", raises)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert (ended.value.code, capsys.readouterr().err) == (1, f"specbook: {said}\n")


SPEAKS = "import sys; sys.argv = ['specbook', '--help']; from specbook.cli.entry import main; main()"


def spoken(shell, first=""):
    """(exit status, what stands on stderr) of the help, with its streams as the shell words leave them."""
    done = subprocess.run(
        ["bash", "-c", f'{first} "$0" -c "$1" {shell}', sys.executable, SPEAKS],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "x"])
@pytest.mark.parametrize(
    ("shell", "reason"),
    [(">/dev/full", "No space left on device"), ('>"$OUT"', "File too large")],
)
def test_standard_output_that_takes_no_more_is_told(tmp_path, monkeypatch, shell, reason, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    limit = "ulimit -f 0;" if "OUT" in shell else ""
    assert spoken(shell, limit) == (1, f"specbook: cannot write to standard output: {reason}\n")


def test_a_file_limit_leaves_no_half_written_bytecode(tmp_path):
    """Limited to a KiB, the least that a shell can set, then not: the second fails on what the first left."""
    left_out = shutil.ignore_patterns(
        "__pycache__", *(path.name for path in (ROOT / "lib/specbook").glob("*/") if path.name != "cli")
    )
    shutil.copytree(ROOT / "lib/specbook", tmp_path / "specbook", ignore=left_out)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for limit, kept in (("ulimit -f 1;", {"__init__"}), ("", {"__init__", "entry", "errors"})):
        subprocess.run(
            ["bash", "-c", f'{limit} "$0" -c "import specbook.cli.entry, specbook.errors"', sys.executable],
            check=True, timeout=60, env=environment | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        found = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
        assert found == kept


@pytest.mark.parametrize("shell", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_mistake(shell):
    assert spoken(shell) == (0, "")


def test_the_command_begins_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["specbook"] == "specbook.cli.entry:main"
