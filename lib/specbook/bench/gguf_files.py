"""GGUF that is made of another GGUF: what both converters have in common."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter


def copy_keys(reader: "GGUFReader", writer: "GGUFWriter", wanted: Callable[[str], bool]) -> None:
    """Take over the metadata whose key is wanted."""
    for name, field in reader.fields.items():
        if wanted(name):
            kind, *of = field.types
            writer.add_key_value(name, field.contents(), kind, of[-1] if of else None)


def finish(writer: "GGUFWriter") -> None:
    """Write the file and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
