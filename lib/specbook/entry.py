"""Where the command line begins: Ctrl-C has its one message even in the seconds of the first imports."""

import os
import sys


def main() -> None:
    """Run `specbook`."""
    try:
        from specbook.cli import app

        try:
            app()
        finally:
            sys.stdout.flush()  # now, while what goes wrong can still be told
    except KeyboardInterrupt:
        sys.stderr.write("specbook: interrupted.\n")
        sys.exit(130)
    except OSError as error:
        if error.filename is not None:
            raise
        _mute()  # Python flushes once more when it ends
        sys.stderr.write(f"specbook: cannot write to standard output: {error.strerror}\n")
        sys.exit(1)


def _mute() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
