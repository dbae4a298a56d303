"""An engine that stands still: noticed while it is silent, or afterwards in what its requests received."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import psutil

from specbook.bench import utilisation
from specbook.config.schema import Load
from specbook.engine.base import Pulse
from specbook.engine.server import Server
from specbook.errors import EngineError, HangError

PERIOD_S = 5.0
"""Between two looks at a server under load: each costs it milliseconds."""
SILENCE_S = 60.0
"""None of the engine's figures moved for so long, under load: it hangs."""
STALL_S = 5.0
"""No request got a token for so long, and then some did: it stalled. No record from before this rule did."""


class Watch:
    """Called again and again while `server` is under `load`; raises when it is gone or stands still.

    Long prompts on a slow machine are no silence. Each chunk of a prompt moves a figure of the engine's; and
    should one step take minutes, then so did the start, which ran one, and the prompts before.

    A closed loop always has a request in flight; between Poisson arrivals an engine may rest. `clock` gives
    seconds, and never goes back.
    """

    def __init__(self, server: Server, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._server, self._load, self._clock = server, load, clock
        self._pulse: Pulse | None = None
        self._looked = self._moved = clock()
        self._cpu_s = self._cpu()

    def __call__(self) -> None:
        """Look, if it is time to; HangError if no figure moved too long, EngineError if the server ended."""
        if not self._server.is_alive():
            raise EngineError("the server went away under load")
        now = self._clock()
        if now - self._looked < PERIOD_S:
            return
        self._looked = now
        try:
            pulse = self._server.pulse()
        except EngineError:  # too busy to answer, or hanging: time tells which
            pulse = None
        if pulse is not None and (self._pulse is None or pulse.figures != self._pulse.figures):
            self._pulse, self._moved, self._cpu_s = pulse, now, self._cpu()
        elif (silent_s := now - self._moved) > self._patience_s():
            raise self._hung(silent_s)

    def _patience_s(self) -> float:
        prefill_s, running = (self._pulse.mean_prefill_s, self._pulse.requests) if self._pulse else (0.0, 0)
        rate = self._load.request_rate_per_s
        rest_s = 20 / rate if rate and not running else 0.0  # one gap in e^20 is longer
        return max(SILENCE_S, self._server.start_s, 10 * prefill_s) + rest_s

    def _hung(self, silent_s: float) -> HangError:
        engine, machine = (
            (now - before) / silent_s for now, before in zip(self._cpu(), self._cpu_s, strict=True)
        )
        others, cores = max(0.0, machine - engine), psutil.cpu_count() or 1
        starved = engine < cores / 4 and others > cores / 2
        return HangError(
            f"the engine made no progress for {silent_s:.0f} s under load. It used {engine:.1f} of {cores} "
            f"cores, other programs {others:.1f}: "
            + ("they starve it, so end what else runs here" if starved else "it hangs")
        )

    def _cpu(self) -> tuple[float, float]:
        """Processor time so far, in core-seconds: (the engine's, the machine's)."""
        engine = 0.0
        for pid in self._server.pids():
            with suppress(psutil.Error):
                engine += utilisation.process_busy_s(psutil.Process(pid))
        return engine, utilisation.machine_busy_s()


def stalled(result: dict[str, Any], load: Load) -> str | None:
    """The first time in a window that no request got a token for too long; None when there was none.

    Prompts whose first tokens end a silence may take a while to read: no longer than decoding as many tokens
    in steps of this batch, twice; and, token for token, no longer than thrice what is usual in this window.
    `result` is the load generator's.
    """
    starts, ttfts, e2es, input_tokens = (
        np.asarray(result[name], float) for name in ("start_times", "ttfts", "latencies", "input_lens")
    )
    firsts, ends = starts + ttfts, starts + e2es
    gaps = [np.asarray(itls, float) for itls in result["itls"]]
    step_s = float(np.median(np.concatenate([*gaps, [0.0]])))
    arrivals = [first + np.r_[0.0, own.cumsum()] for first, own in zip(firsts, gaps, strict=True)]
    tokens = np.sort(np.concatenate([[starts.min()], *arrivals]))
    for i in np.flatnonzero(np.diff(tokens) > STALL_S):
        waiting = (starts < tokens[i + 1]) & (ends > tokens[i] + 1e-6)
        ended = tokens[i + 1]
        began = max(tokens[i], starts[waiting].min())  # before, there was nothing to answer
        read = input_tokens[(firsts >= ended) & (firsts <= ended + 2 * step_s)].sum()
        reading_s = 3 * read * np.median((firsts - starts) / input_tokens)
        if step_s:
            reading_s = min(2 * read * step_s / (load.concurrency or 1), reading_s)
        if ended - began > max(STALL_S, 10 * step_s) + reading_s:
            return (
                f"stalled: {waiting.sum()} requests waited {ended - began:.1f} s for a token, from "
                f"{began - starts.min():.1f} s into the window; a step takes {step_s * 1000:.0f} ms here"
            )
    return None
