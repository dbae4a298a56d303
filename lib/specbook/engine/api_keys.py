"""The key that a server demands of its clients, and where it may come from."""

import os
from pathlib import Path

from specbook.errors import ConfigError

VARIABLE = "SPECBOOK_API_KEY"
NEVER_ON_A_COMMAND_LINE = (
    "--api-key would show the key to every user of this machine, in the list of processes: set "
    f"{VARIABLE}, or use --api-key-file or --ask-api-key"
)


def read(file: Path | None) -> str | None:
    """The key in `file`, else in the environment; None where there is none.

    Raises:
        ConfigError: if the file cannot be read, or is empty.
    """
    if file is None:
        return os.environ.get(VARIABLE) or None
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key-file {file} cannot be read: {error}") from error
    if not key:
        raise ConfigError(f"--api-key-file {file} is empty: write the key into it")
    return key
