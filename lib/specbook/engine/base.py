"""What a folder beside this file has to bring to be an engine, and the engines there are, by name."""

import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, Protocol, Self

from specbook.config.methods import Method
from specbook.config.schema import Frozen, Point, Speculation, Target
from specbook.errors import ConfigError
from specbook.records.run import ServerCounters, SpecDecodeCounters
from specbook.suggestions import near

OPEN_PATHS = "SPECBOOK_OPEN_PATHS"
"""Variable of a server with a key: the paths that need none, separated by spaces."""
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
TAIL_BYTES = 1_000_000
Device = Literal["cpu", "accelerator"]


@dataclass(frozen=True)
class Build:
    """Which engine is installed."""

    distribution: str
    """The package it comes in."""
    version: str
    device: Device
    """What it was built to compute on."""
    bytes_beside_weights: int = 3 * 2**30
    """Memory of a server on a CPU beside its weights: processes, compiled kernels, and the KV cache."""


@dataclass(frozen=True)
class Counters:
    """What a server has counted since its start."""

    server: ServerCounters
    spec_decode: SpecDecodeCounters | None
    """None on a server that does not draft."""
    lacks: str | None = None
    """What they lack to tell what was drafted; None where nothing."""
    processes: tuple[float, ...] = ()
    """When the processes started that count, Unix time; empty where they do not say."""


@dataclass(frozen=True)
class Pulse:
    """What changes whenever the engine takes a step, and how long a prompt takes it."""

    figures: tuple[str, ...]
    """The engine's own figures: two readings that are equal saw no step between them."""
    requests: float
    """Running or waiting, at the last step."""
    mean_prefill_s: float
    """Over all requests so far; 0 before the first."""


class LoadTool(Protocol):
    """A load generator that speaks OpenAI's chat API, run as a process of its own. See `bench.loadgen`."""

    worker: Path
    """Script of the process: `python -P WORKER LOG`, jobs in and answers out as JSON lines."""
    environment: Mapping[str, str]
    reads_counters_of: str
    """Name of the engine whose draft counters its result holds too."""

    def arguments(self, point: Point, url: str, dataset: Path, num_requests: int, result: Path) -> list[str]:
        """The job of one window: `num_requests` lines of `dataset` against the server at `url`."""

    def last_words(self, log: Path) -> str:
        """The error that the worker's log ends with."""


class Profiler(Protocol):
    """A profiler that comes with an engine: it says what the time of a step goes into."""

    variables: Mapping[str, str]
    """Variables for the server's environment."""
    start_path: str
    """Asked with POST, it begins to profile."""
    stop_path: str
    """Likewise, it stops, and has written what it found once it answers."""

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """Arguments for the server's command line; what is found goes to `folder`."""

    def steps(self, folder: Path) -> list[dict[str, float]]:
        """Part -> seconds, for each step of one engine, in their order; none where nothing was profiled.

        Raises:
            EngineError: if a file in `folder` cannot be read.
        """


class Check(Frozen):
    """One thing that was looked for."""

    name: str
    """What was looked for."""
    ok: bool | None
    """True: all is well. False: missing or wrong, and needed. None: missing, and optional."""
    value: str
    """Its version or place, or what is there instead."""
    fix: str
    """What fixes it, as a command where there is one; empty when all is well."""

    @classmethod
    def of(cls, name: str, ok: bool | None, value: str, fix: str) -> Self:
        """A check that names its fix only when it is needed."""
        return cls(name=name, ok=ok, value=value, fix="" if ok else fix)

    @classmethod
    def needed(cls, name: str, value: object, fix: str) -> Self:
        """Something without which nothing works; `value` is None where it is missing."""
        return cls.of(name, value is not None, str(value or "none"), fix)

    @classmethod
    def optional(cls, name: str, value: object, fix: str) -> Self:
        """Something that helps; `value` is None where it is missing."""
        return cls.of(name, True if value else None, str(value or "none"), fix)


def which(*commands: str) -> str | None:
    """Where the first of these commands lies."""
    return next((path for command in commands if (path := shutil.which(command))), None)


def inherited(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Variables of the caller that begin so and matter to an engine; none that may hold a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(prefixes) and not any(word in name for word in SECRET)
    }


def flags(options: Mapping[str, object]) -> list[str]:
    """`--name value` of each option that has a value."""
    given = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
    return [*chain.from_iterable(given)]


def log_lines(log: Path) -> list[str]:
    """The last megabyte of a log; nothing where it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def version(distribution: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


class Engine(Protocol):
    """An inference engine with an OpenAI-compatible server. A folder beside this file registers one."""

    name: str
    """The word in a plan's `target.engine`."""
    title: str
    """The word for people."""
    packages: tuple[str, ...]
    """Distributions whose versions a record keeps."""
    key_variable: str | None
    """Environment variable in which the server takes its API key; None where it takes none there."""
    lock_arguments: tuple[str, ...]
    """Arguments with which a server that has a key demands it on every path but those in OPEN_PATHS."""
    health_path: str
    """Answered with status 200 once the server is ready."""
    counters_path: str
    """Where the server publishes what it has counted."""
    load_tool: LoadTool | None
    """The load generator that comes with it, if one does."""
    profiler: Profiler | None
    """Its profiler, if it has one."""

    def build(self) -> Build:
        """What is installed; EngineError, with the command that installs it, if nothing is."""

    def knows(self, method: type[Method]) -> bool:
        """Whether it drafts by this method."""

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """What of this it cannot do, and what to do instead; None when it can."""

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """The server's command line, on 127.0.0.1. Never with an API key: other users could read it there."""

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """Variables that the server gets beside the caller's, and those of the caller that matter to it."""

    def counters(self, text: str) -> Counters:
        """What `counters_path` answered, in our words.

        Raises:
            EngineError: if something is missing that every release we know has.
        """

    def page_counters(self, text: str, model: str) -> Counters | None:
        """The same of a server that others started, of whatever release; None if it is not this engine.

        Decided by a sign that only this engine has, since any page may answer at `counters_path`. Of several
        models, those of `model`. What a release does not show is 0, or named in `Counters.lacks`.
        """

    def pulse(self, text: str) -> Pulse:
        """The pulse in what `counters_path` answered; cheap, since it is taken while others are measured."""

    def last_words(self, log: Path) -> str:
        """The error that a server's log ends with, failing that its last lines."""

    def checks(self) -> Iterable[Check]:
        """What this machine must have for it, for `specbook doctor`."""


_REGISTRY: dict[str, Engine] = {}


def register(engine: Engine) -> None:
    """Make an engine known."""
    _REGISTRY[engine.name] = engine


def known() -> list[Engine]:
    """Every engine, by name."""
    return [_REGISTRY[name] for name in sorted(_REGISTRY)]


def for_target(target: Target) -> Engine:
    """The engine that serves a target; ConfigError, naming the near match, if there is none of that name."""
    if target.engine not in _REGISTRY:
        raise ConfigError(f"no engine {target.engine!r}{near(target.engine, _REGISTRY)}")
    return _REGISTRY[target.engine]


def load_tool() -> LoadTool:
    """The load generator: one for all engines, or their numbers could not be compared."""
    return next(each.load_tool for each in known() if each.load_tool)
