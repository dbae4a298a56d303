"""Walk CPython's library and list what it defines, in the same order on every machine.

The text is used under the PSF License; none of it is stored in this repository's sources.
"""

import ast
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# Tests are not everyday code; encodings and pydoc_data are tables; the rest is a tool or this build's own.
_SKIPPED_FOLDERS = frozenset([
    "test", "tests", "idlelib", "idle_test", "turtledemo", "site-packages", "dist-packages", "__pycache__",
    "encodings", "pydoc_data", "lib-dynload", "ensurepip", "__phello__",
])  # fmt: skip
_SKIPPED_PREFIXES = ("config-", "_sysconfigdata", "sitecustomize", "usercustomize")


@dataclass(frozen=True)
class Definition:
    """A module, class, function or method of the library. Functions inside functions are left out:

    their bodies would be repeated inside an outer one, and the held-out split could leak.
    """

    module: str
    """Dotted module name, e.g. `shutil`."""
    path: str
    """Name inside the module, e.g. `TarFile.open`; empty for the module itself."""
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    """Its syntax tree. Shared by every caller: copy before changing it."""
    in_class: bool
    """True for a method."""

    @property
    def name(self) -> str:
        """Qualified name, e.g. `tarfile.TarFile.open`; also the key of the held-out split."""
        return f"{self.module}.{self.path}" if self.path else self.module

    @property
    def kind(self) -> str:
        """`module`, `class`, `function` or `method`."""
        if isinstance(self.node, ast.Module):
            return "module"
        if isinstance(self.node, ast.ClassDef):
            return "class"
        return "method" if self.in_class else "function"


@lru_cache(maxsize=1)
def definitions() -> tuple[Definition, ...]:
    """Every definition of the library, by file then line; the first of two equal names is kept."""
    found: dict[str, Definition] = {}
    root = Path(sysconfig.get_path("stdlib"))
    for path in _source_files(root):
        tree = ast.parse(path.read_bytes())
        module = _module_name(path.relative_to(root))
        for definition in (Definition(module, "", tree, False), *_members(module, "", tree)):
            found.setdefault(definition.name, definition)
    return tuple(found.values())


def _source_files(root: Path) -> list[Path]:
    files = (p for p in root.rglob("*.py") if not _skipped(p.relative_to(root)))
    return sorted(files, key=lambda p: p.relative_to(root).as_posix())


def _skipped(relative: Path) -> bool:
    folders, first = relative.parts[:-1], relative.parts[0]
    return bool(_SKIPPED_FOLDERS.intersection(folders)) or first.startswith(_SKIPPED_PREFIXES)


def _module_name(relative: Path) -> str:
    parts = relative.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _members(module: str, prefix: str, parent: ast.AST) -> Iterator[Definition]:
    in_class = isinstance(parent, ast.ClassDef)
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(module, prefix + node.name, node, in_class)
        if isinstance(node, ast.ClassDef):
            yield from _members(module, f"{prefix}{node.name}.", node)
