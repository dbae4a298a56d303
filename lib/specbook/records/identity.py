"""Identity of a measurement: all that was set, and all that ran it."""

from functools import lru_cache
from pathlib import PurePath

from specbook.config.schema import Point, digest
from specbook.records.run import Provenance, RunRecord

BESIDE = {"python", "specbook", "numpy", "transformers", "speculators"}
"""Packages whose version is recorded and does not change what an engine does; all others are its build."""
NEUTRAL = {
    "CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "NEURON_COMPILED_ARTIFACTS", "PYTHONDONTWRITEBYTECODE",
    "VLLM_NO_USAGE_STATS",
}  # fmt: skip
"""Variables that change neither speed nor output: which of several equal devices, what is kept on disk."""


def identity(point: Point, origin: Provenance) -> str:
    """16 hex digits: the point, the engine with its build and environment, the weights and the prompts.

    Two records of one identity repeat the same measurement; a name shown to people is no part of it.
    """
    return digest([point.key, engine(origin), origin.weights_sha256, origin.prompts_sha256], 16)


def setup(record: RunRecord) -> str:
    """8 hex digits of what two arms must share to be compared: all of `identity` but the arm itself."""
    origin = record.provenance
    weights = origin.weights_sha256.get("target")
    return digest([record.point.cell_key, engine(origin), weights, origin.prompts_sha256], 8)


def engine(origin: Provenance) -> str:
    """16 hex digits of the engine's build and of the variables that change what it does."""
    return _engine(tuple(origin.versions.items()), tuple(origin.server_env.items()))


@lru_cache(maxsize=256)  # thousands of records have the same few
def _engine(versions: tuple[tuple[str, str], ...], variables: tuple[tuple[str, str], ...]) -> str:
    build = {name: version for name, version in versions if name not in BESIDE}
    return digest([build, {k: _value(k, v) for k, v in variables if k not in NEUTRAL}], 16)


def _value(name: str, value: str) -> object:
    """Preloaded libraries by their names: where they lie differs from machine to machine."""
    return sorted(PurePath(part).name for part in value.split(":")) if name == "LD_PRELOAD" else value
