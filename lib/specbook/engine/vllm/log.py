"""What an engine's log says went wrong."""

import re
from pathlib import Path

PREFIX = re.compile(
    r"^(\x1b\[[0-9;]*m)*(\([\w-]+ pid=\d+\) )?(\x1b\[[0-9;]*m)*"  # (EngineCore pid=123)
    r"((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]]*\] ?)?"  # ERROR 11-21 12:00:00 [core.py:1]
)
EXCEPTION = re.compile(r"^([\w.]*(Error|Exception|Refused)|[\w./-]+\.py: error): \S")
# vLLM's front end only repeats that its engine process failed: the reason stands above.
SECOND_HAND = (
    "Engine core initialization failed",
    "See root cause above",
    "WorkerProc initialization failed",
)
TAIL_BYTES = 1_000_000


def lines(path: Path) -> list[str]:
    """The log's last megabyte, one string per line, without vLLM's process and time prefixes."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [PREFIX.sub("", line).rstrip() for line in text.splitlines()]


def tail(path: Path, n: int) -> str:
    """The last `n` lines that hold anything."""
    return "\n".join([line for line in lines(path) if line.strip()][-n:])


def error(path: Path) -> str | None:
    """The last error the log names, with the line that explains it; None when it names none."""
    found = lines(path)
    where = [i for i, line in enumerate(found) if EXCEPTION.match(line) and not _second_hand(line)]
    if not where:
        return None
    first, *after = found[where[-1] : where[-1] + 3]
    detail = [
        line.strip() for line in after if line.startswith(" ") and not line.lstrip().startswith("File ")
    ]
    return " ".join([first, *detail])[:600]


def _second_hand(line: str) -> bool:
    return any(phrase in line for phrase in SECOND_HAND)


def last_words(path: Path) -> str:
    """The error line, or failing that the last lines."""
    return error(path) or tail(path, 3) or "(its log is empty)"
