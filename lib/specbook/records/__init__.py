"""The truth on disk. In: what one point gave. Out: the same, read back and checked."""

from specbook.records.packing import drop, pack
from specbook.records.run import (
    REQUEST_COLUMNS,
    Kind,
    Measurement,
    RunRecord,
    ServerCounters,
    SpecDecodeCounters,
    Throughput,
    Utilisation,
)
from specbook.records.store import (
    append,
    check_writable,
    everything,
    folder,
    load,
    load_lossless,
    read,
    requests,
    write_requests,
)
from specbook.records.validate import validate_all

__all__ = [
    "REQUEST_COLUMNS", "Kind", "Measurement", "RunRecord", "ServerCounters", "SpecDecodeCounters",
    "Throughput", "Utilisation", "append", "check_writable", "drop", "everything", "folder", "load",
    "load_lossless", "pack", "read", "requests", "validate_all", "write_requests",
]  # fmt: skip
