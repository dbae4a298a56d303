"""The last words of a server's log."""

import re
from pathlib import Path

PYTHON = re.compile(r"^(?:.* )?(\w[\w.]*(?:Error|Exception): .*)")
"""How the last line of a Python traceback reads, whatever a logger put before it."""
TAIL_BYTES = 1_000_000
LONGEST = 600
"""In characters."""


def last_words(log: Path, *errors: re.Pattern[str]) -> str:
    """The last error that the log names, failing that its last lines.

    `errors`: each matches a line that names one, and its group is what is told; the first goes first. None:
    PYTHON.
    """
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    for error in errors or (PYTHON,):
        if said := [match[1] for match in map(error.match, lines) if match]:
            return said[-1][:LONGEST]
    return "\n".join(lines[-3:])[:LONGEST] or "(its log is empty)"
