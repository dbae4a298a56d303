"""PyTorch's profiler in vLLM's worker: the seconds that each part of a decode step takes."""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from specbook.errors import EngineError

_RUNNER = "gpu_model_runner: "  # also the CPU's, which inherits from it
BEGINS, PASS = f"{_RUNNER}preprocess", f"{_RUNNER}forward"
SCOPES = MappingProxyType(
    {
        BEGINS: "prepare inputs",
        f"{_RUNNER}sample": "sample, reject",
        f"{_RUNNER}draft": "draft",
        f"{_RUNNER}postprocess": "book-keeping",
        f"{_RUNNER}bookkeep": "book-keeping",
    }
)
"""Scopes of vllm/v1/worker/gpu_model_runner.py (0.32) in our words; PASS is split by its operations."""
OPERATIONS = MappingProxyType(
    {
        "attention": re.compile("unified_attention"),
        "KV cache": re.compile("kv_cache_update"),
        # Of an operation, with its namespace: a compiled graph bears a digest, which may hold any letters.
        "matrices": re.compile(r"::\w*(mm|linear|matmul)"),
    }
)
REST, BETWEEN = "rest of the pass", "between steps"
PARTS = (BETWEEN, "prepare inputs", *OPERATIONS, REST, "sample, reject", "draft", "book-keeping")
Event = dict[str, Any]


class TorchProfiler:
    """See `engine.base.Profiler`."""

    variables = MappingProxyType({"VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1"})
    start_path, stop_path = "/start_profile", "/stop_profile"

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """Without stacks, and of the worker alone: both cost time that would be taken for the step's."""
        asked = {
            "profiler": "torch", "torch_profiler_dir": str(folder), "torch_profiler_with_stack": False,
            "ignore_frontend": True,
        }  # fmt: skip
        return "--profiler-config", json.dumps(asked)

    def steps(self, folder: Path) -> list[dict[str, float]]:
        """PARTS of each step of the traces in `folder`, in seconds."""
        return [step for trace in sorted(folder.glob("*.pt.trace.json*")) for step in _steps(_read(trace))]


def _read(trace: Path) -> list[Event]:
    """The events that have a length, in the order in which they began."""
    opened = gzip.open if trace.suffix == ".gz" else open
    try:
        with opened(trace, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise EngineError(f"the engine's profile {trace.name} cannot be read: {error}") from error
    return sorted((one for one in events if one.get("ph") == "X"), key=lambda one: one["ts"])


def _steps(events: Sequence[Event]) -> Iterator[dict[str, float]]:
    """A step lasts from where its inputs are prepared to where the next one's are."""
    begins = [one["ts"] for one in events if one["name"] == BEGINS]
    for start, end in pairwise(begins):
        yield _parts([one for one in events if start <= one["ts"] < end], end - start)


def _parts(events: Sequence[Event], whole_us: float) -> dict[str, float]:
    parts_us = dict.fromkeys(PARTS, 0.0)
    for one in events:
        if one["name"] in SCOPES:
            parts_us[SCOPES[one["name"]]] += one["dur"]
        elif one["name"] == PASS:
            inside = [o for o in events if o["tid"] == one["tid"] and o is not one and _holds(one, o)]
            taken = {
                part: sum(o["dur"] for o in _outermost(inside, name)) for part, name in OPERATIONS.items()
            }
            for part, spent in {**taken, REST: one["dur"] - sum(taken.values())}.items():
                parts_us[part] += spent
    parts_us[BETWEEN] = whole_us - sum(parts_us.values())
    return {part: spent / 1e6 for part, spent in parts_us.items()}


def _holds(outer: Event, inner: Event) -> bool:
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def _outermost(events: Sequence[Event], name: re.Pattern[str]) -> Iterator[Event]:
    """Events of that name, without those inside another of them."""
    until = float("-inf")
    for one in events:
        if one.get("cat") == "cpu_op" and one["ts"] >= until and name.search(one["name"]):
            until = one["ts"] + one["dur"]
            yield one
