"""The image's three layers, each packed once and again only when what it is made from has changed.

system: Debian by debootstrap; packages: the project's .venv; project: lib, params and models, which change
often and are small.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dockerfile
from places import IMAGE, call, digest

from specbook import paths
from specbook.errors import ClusterError

WORKDIR = Path("opt/specbook")
BLOBS = IMAGE / "blobs" / "sha256"
STAMPS = IMAGE / "layers.json"
PROJECT = ("lib", "params", "models")


def mirror() -> str:
    """The address of this machine's Debian mirror.

    Raises:
        ClusterError: if apt names none.
    """
    for file in sorted(Path("/etc/apt").glob("sources.list*")) + sorted(
        Path("/etc/apt/sources.list.d").glob("*")
    ):
        if file.is_file() and (
            found := re.search(r"^(?:URIs:|deb(?: \[.*?\])?) *(https?://\S+)", file.read_text(), re.M)
        ):
            return found.group(1)
    raise ClusterError(
        "no mirror of Debian in /etc/apt. To fix: name one in /etc/apt/sources.list.d/debian.sources"
    )


def remove_tree(folder: Path) -> None:
    """Remove a folder, and first unmount what an interrupted debootstrap left mounted in it."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in sorted((point for point in mounted if point.startswith(f"{folder}/")), reverse=True):
        call("umount", point)
    shutil.rmtree(folder, ignore_errors=True)


def system_tree(tree: Path) -> None:
    """Debian with the Dockerfile's packages and the server's user."""
    # In two steps, since debootstrap does not resolve a dependency on a virtual package.
    call("debootstrap", "--variant=minbase", dockerfile.suite(), tree, mirror(), timeout_s=1800)
    inside = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *dockerfile.packages()]
    for command in (["apt-get", "update"], install, ["apt-get", "clean"], *dockerfile.account_commands()):
        call("chroot", tree, *command, timeout_s=1800, env=inside)
    shutil.rmtree(tree / "var/lib/apt/lists")


def packages_tree(tree: Path) -> None:
    """The project's own .venv at the image's path: linked, not downloaded again."""
    ours, theirs = (paths.root() / ".venv").resolve(), tree / WORKDIR / ".venv"
    theirs.parent.mkdir(parents=True)
    call("cp", "--archive", "--link", ours, theirs, timeout_s=900)
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("python", "python3", minor):
        (theirs / "bin" / name).unlink(missing_ok=True)
        (theirs / "bin" / name).symlink_to(f"/usr/bin/{minor}")
    for script in (theirs / "bin").iterdir():
        move_script(script, ours, Path("/") / WORKDIR / ".venv")
    compile_bytecode(theirs / "lib", tree)


def move_script(script: Path, old: Path, new: Path) -> None:
    """Let a script of the environment name its new place; the link to the old file is broken first."""
    if script.is_symlink() or not script.is_file() or script.read_bytes()[:2] != b"#!":
        return
    text, mode = script.read_bytes().replace(bytes(old), bytes(new)), script.stat().st_mode
    script.unlink()
    script.write_bytes(text)
    script.chmod(mode)


def project_tree(tree: Path) -> None:
    """The package, its plans and its models."""
    for name in PROJECT:
        skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(paths.root() / name, tree / WORKDIR / name, ignore=skip)
    compile_bytecode(tree / WORKDIR / "lib", tree)


def compile_bytecode(folder: Path, tree: Path) -> None:
    """Compile now: the container's root is read-only, and each start would compile thousands of modules."""
    command = [sys.executable, "-m", "compileall", "-q", "-j0", "-x", dockerfile.bytecode_excluded()]
    subprocess.run([*command, "-s", tree, "-p", "/", folder], stdout=subprocess.DEVNULL)  # some are templates


def system_key() -> str:
    """Changes with the release, the packages and the user."""
    return digest(dockerfile.suite(), *dockerfile.packages(), *map(str, dockerfile.account_commands()))


def packages_key() -> str:
    """Changes with the locks and with each install into .venv."""
    locks = sorted((paths.root() / "requirements").glob("*cpu.lock"))
    stamp = (paths.root() / ".venv" / ".installed").stat().st_mtime_ns
    return digest(*(lock.read_bytes() for lock in locks), str(stamp), dockerfile.bytecode_excluded())


def project_key() -> str:
    """Changes with any file of the package, the plans or the models."""
    files = [file for name in PROJECT for file in sorted((paths.root() / name).rglob("*")) if file.is_file()]
    seen = [(file, file.stat()) for file in files if "__pycache__" not in file.parts]
    return digest(*(f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in seen))


def pack(tree: Path) -> tuple[str, int]:
    """(SHA-256, bytes) of a folder as a layer, stored under its digest."""
    BLOBS.mkdir(parents=True, exist_ok=True)
    part, checksum = BLOBS / "layer.part", hashlib.sha256()
    command = ["tar", "--create", "--sort=name", "--numeric-owner", "--one-file-system"]
    process = subprocess.Popen([*command, f"--directory={tree}", "."], stdout=subprocess.PIPE)
    assert process.stdout
    with part.open("wb") as file:
        while block := process.stdout.read(1 << 20):
            checksum.update(block)
            file.write(block)
    if process.wait() != 0:
        raise ClusterError(f"tar could not pack {tree}")
    size = part.stat().st_size
    part.rename(BLOBS / checksum.hexdigest())
    return checksum.hexdigest(), size


def stamps() -> dict[str, dict]:
    """What each finished layer was made from, and its digest."""
    return json.loads(STAMPS.read_text()) if STAMPS.is_file() else {}


def kept(name: str, key: str) -> tuple[str, int] | None:
    """(SHA-256, bytes) of a layer of an earlier run; None if there is none or its key is another."""
    old = stamps().get(name)
    good = old and old["key"] == key and (BLOBS / old["sha256"]).is_file()
    return (old["sha256"], old["bytes"]) if good else None


def layer(name: str, key: str, make: Callable[[Path], None]) -> tuple[str, int]:
    """(SHA-256, bytes) of one layer, from an earlier run if its key is the same."""
    if done := kept(name, key):
        return done
    tree, old = IMAGE / f"{name}.part", stamps().get(name, {})
    remove_tree(tree)
    make(tree)
    sha256, size = pack(tree)
    STAMPS.write_text(json.dumps(stamps() | {name: {"key": key, "sha256": sha256, "bytes": size}}, indent=1))
    remove_tree(tree)
    if old.get("sha256", sha256) != sha256:
        (BLOBS / old["sha256"]).unlink(missing_ok=True)
    return sha256, size
