"""The truth on disk. In: what one point gave. Out: the same, read back and checked."""

import gc

import pandas as pd

from specbook.records.run import REQUEST_COLUMNS, RunRecord
from specbook.records.run_set import RunSet, machine, of_chapter, recorded, replay
from specbook.records.store import (
    append,
    check_writable,
    drop,
    everything,
    folder,
    load,
    load_lossless,
    pack,
    read,
    requests,
    write_requests,
)
from specbook.records.validate import validate_all

__all__ = [
    "REQUEST_COLUMNS", "RunRecord", "RunSet", "append", "check_writable", "drop", "everything", "folder",
    "load", "load_lossless", "machine", "of_chapter", "pack", "read", "recorded", "replay", "requests",
    "validate_all", "write_requests",
]  # fmt: skip

if pd.options.mode.string_storage == "auto":
    # Our tables have a few dozen rows, where Arrow's strings cost more than they save: a page takes a quarter
    # longer to draw with them.
    pd.options.mode.string_storage = "python"

# Records are thousands of objects, and all of them stay: to look for garbage after every 700 new ones takes a
# sixth of the time that a book is drawn in.
gc.set_threshold(100_000, 50, 100)
