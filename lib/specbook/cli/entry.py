"""Where the command line begins: Ctrl-C has its one message even in the seconds of the first imports."""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn


def main() -> None:
    """Run `specbook`; exit status 130 after Ctrl-C, however often it is pressed."""
    pressed, ended, code = 0, False, None

    def interrupt(*_: object) -> None:
        """Ctrl-C: an exception for as long as the command runs, and nothing once it has ended."""
        nonlocal pressed
        pressed += 1
        if not ended:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started us ignores it
        signal.signal(signal.SIGINT, interrupt)
    try:
        _command()
    except SystemExit as stopped:
        code = stopped.code
    except KeyboardInterrupt:  # one more, while the first was reported
        code = 130
    ended = True
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python's own end takes its time
    sys.exit(130 if pressed and code else code)


def _command() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it, and whatever prints would fail
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    sys.stdout.write, sys.stdout.flush = _guarded(sys.stdout.write), _guarded(sys.stdout.flush)
    try:
        from specbook.cli.main import app

        try:
            app()
        finally:
            sys.stdout.flush()  # now, while what goes wrong can still be reported
    except KeyboardInterrupt:
        _end("interrupted.", 130)
    except _UnwrittenError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        _end(f"cannot write to standard output: {error.strerror}", 1)
    except OSError as error:  # of a disk, the network or the hub's client: no traceback fixes those
        _end(f"{type(error).__name__}: {error}", 1)


class _UnwrittenError(OSError):
    """Standard output takes no more: its reader is gone, its disk is full, or its file may not grow."""


def _guarded(write: Callable[..., Any]) -> Callable[..., Any]:
    """`write`, its failures an error of their own kind among all OSErrors."""

    def guarded(*arguments: Any) -> Any:
        try:
            return write(*arguments)
        except OSError as error:
            raise _UnwrittenError(error.errno, error.strerror) from error

    return guarded


def _end(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"specbook: {message}\n")
    sys.exit(code)
