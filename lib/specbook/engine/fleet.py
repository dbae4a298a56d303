"""Servers that are up together, of which one runs at a time: arms are measured seconds apart, not minutes.

A machine's speed drifts over minutes, and to start an engine takes one. Started once, and stopped (SIGSTOP)
but for its own windows, a server costs memory while it waits and no time.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Self

import psutil

from specbook import engine
from specbook.config.checkpoint import weight_files
from specbook.config.schema import Arm, resolve_model
from specbook.engine.preflight import models
from specbook.engine.server import Server
from specbook.errors import EngineError

MAX_DEATHS = 2
"""An engine that dies twice is not started a third time."""
CORES_A_START = 4
"""A start is mostly one thread that imports, process after process; kernels are then compiled by several."""


def at_once(arms: Sequence[Arm]) -> int:
    """How many of these servers this machine holds together, the largest first.

    On an accelerator each takes the share of the memory that its `--gpu-memory-utilization` says; one that
    says none takes nearly all of it.
    """
    builds = [engine.for_target(target).build() for target, _ in arms]
    if any(build.device != "cpu" for build in builds):
        shares = sorted((target.memory_share for target, _ in arms), reverse=True)
        return max(1, sum(taken <= 1 for taken in accumulate(shares)))
    weights = (sum(map(_weights_bytes, models(*arm))) for arm in arms)
    each = (build.bytes_beside_weights + own for build, own in zip(builds, weights, strict=True))
    free = psutil.virtual_memory().available
    return max(1, sum(taken <= free for taken in accumulate(sorted(each, reverse=True))))


def starts_at_once() -> int:
    """How many servers start side by side: while one imports the next begins to, on two cores as on many."""
    return max(2, (os.cpu_count() or 1) // CORES_A_START)


def _weights_bytes(model: str) -> float:
    """Bytes of a local model's weights; infinite for a hub id, of which nothing is known here."""
    folder = Path(resolve_model(model))
    return sum(f.stat().st_size for f in weight_files(folder)) if folder.is_dir() else float("inf")


class Fleet:
    """All of these servers are started when the `with` block is entered, and gone after it.

    A server that does not start, or dies, is started once more when it is next needed.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._wanted = [*arms]
        self._begun: dict[Arm, Server] = {}
        self._up: dict[Arm, Server] = {}
        self._deaths: defaultdict[Arm, list[EngineError]] = defaultdict(list)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:  # an interrupt while they start ends those that are up
            for place, arm in enumerate(self._wanted):
                for one in self._wanted[place : place + starts_at_once()]:
                    with suppress(EngineError):
                        self._begin(one)
                with suppress(EngineError), self.running(arm):
                    pass
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def running(self, arm: Arm) -> Iterator[Server]:
        """One server runs in this block, ready to answer; EngineError if it cannot, or died too often."""
        server = self._alive(arm)
        try:
            server.resume()  # one that then does not answer would else spin on beside the other arms
            yield server
        finally:
            server.pause()

    def _alive(self, arm: Arm) -> Server:
        if arm in self._up:
            if self._up[arm].is_alive():
                return self._up[arm]
            del self._up[arm]
            self._deaths[arm].append(EngineError("the engine kept dying on points before this one"))
        if len(self._deaths[arm]) >= MAX_DEATHS:
            raise self._deaths[arm][-1]
        try:
            server = self._begin(arm)
            del self._begun[arm]
            self._up[arm] = self._stack.enter_context(server)
        except EngineError as error:
            self._deaths[arm].append(error)
            raise
        return self._up[arm]

    def _begin(self, arm: Arm) -> Server:
        """A server that starts, unless it does already; none is left behind should it not be waited for."""
        if arm not in self._begun:
            self._begun[arm] = Server(*arm).begin()
            self._stack.callback(self._begun[arm].stop)
        return self._begun[arm]
