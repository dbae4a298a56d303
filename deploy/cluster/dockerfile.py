"""What deploy/docker/cpu.Dockerfile says, so that the image built without an engine cannot differ from it."""

import re
from pathlib import Path

from specbook import paths

DOCKERFILE = paths.root() / "deploy" / "docker" / "cpu.Dockerfile"


def instructions(file: Path = DOCKERFILE) -> list[tuple[str, str]]:
    """(instruction, arguments) in order; continued lines joined, comments dropped."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines()) if name]


def suite(file: Path = DOCKERFILE) -> str:
    """Debian's release of the base image, as debootstrap names it."""
    base = dict(instructions(file))["FROM"]
    return base.partition(":")[2].removesuffix("-slim")


def steps(file: Path = DOCKERFILE) -> list[str]:
    """The commands of all RUN instructions."""
    runs = [rest.partition("  #")[0] for name, rest in instructions(file) if name == "RUN"]
    return [step.strip() for run in runs for step in run.split("&&")]


def packages(file: Path = DOCKERFILE) -> list[str]:
    """Debian packages of the image."""
    install = next(step for step in steps(file) if "apt-get install" in step)
    return install.partition("--no-install-recommends")[2].split()


def account_commands(file: Path = DOCKERFILE) -> list[list[str]]:
    """The commands that make the server's user."""
    return [step.split() for step in steps(file) if step.startswith(("groupadd", "useradd"))]


def environment(commit: str, file: Path = DOCKERFILE) -> list[str]:
    """`NAME=value` of the image, as an image's configuration lists them."""
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    text = " ".join(rest for name, rest in instructions(file) if name == "ENV")
    return [pair.replace("$PATH", system).replace("$COMMIT", commit) for pair in text.split()]


def bytecode_excluded(file: Path = DOCKERFILE) -> str:
    """The pattern of modules that no server imports, and that are not compiled."""
    return re.search(r"compileall .*-x '([^']+)'", file.read_text()).group(1)
