"""Files that a kill or a full disk cannot leave half written."""

import os
import tempfile
from pathlib import Path

from specbook.errors import RecordError


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside `path`, flush to disk, rename: a reader sees the old file, the new one, or none.

    Raises:
        RecordError: if the disk is full or the folder is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)  # mkstemp keeps it from other users; a record is for them
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RecordError(
            f"cannot write {path}: {error.strerror}. Records on disk before it are safe."
        ) from error


def sync_names(folder: Path) -> None:
    """Make the folder's list of files outlast a loss of power: what is removed next is no longer needed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
