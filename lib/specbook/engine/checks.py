"""What would make an engine fail after half a minute, found in a millisecond before it is started."""

import json
import socket
import struct
from pathlib import Path
from typing import Any

from specbook import paths
from specbook.config import Speculation, Target, resolve_model
from specbook.errors import ConfigError, EngineError

MAX_HEADER_BYTES = 100_000_000  # safetensors' own limit
MAX_NUM_SPECULATIVE_TOKENS = 128  # vllm.v1.sample.rejection_sampler.MAX_SPEC_LEN


def local_folder(model: str) -> Path | None:
    """The model's folder; None for a hub id.

    Raises:
        ConfigError: if `model` can only be a folder, and it is missing.
    """
    folder = Path(resolve_model(model))
    if folder.is_dir():
        return folder
    if model.startswith(("/", ".", "~")) or (
        (paths.root() / model).parent != paths.root() and (paths.root() / model).parent.is_dir()
    ):
        raise ConfigError(f"model folder {model} does not exist: run `specbook train`, or mend `model`")
    return None


def read_config(folder: Path) -> dict[str, Any]:
    """The model's config.json."""
    path = folder / "config.json"
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): the folder holds no model") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON ({error}): copy or train the model again") from error


def _promised_bytes(path: Path) -> int:
    """File length that a safetensors header announces."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"header of {length} bytes")
        header = json.loads(file.read(length))
    ends = (t["data_offsets"][1] for name, t in header.items() if name != "__metadata__")
    return 8 + length + max(ends, default=0)


def check_weights(folder: Path) -> None:
    """Every safetensors file is complete, and none that the index names is missing."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    named = set(json.loads(index.read_bytes())["weight_map"].values()) if index.is_file() else set()
    if missing := sorted(named - {f.name for f in files}) or ([] if files else ["model.safetensors"]):
        raise ConfigError(f"{folder} lacks {missing[0]}: copy or train the model again")
    for path in files:
        try:
            want = _promised_bytes(path)
        except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path} is not a safetensors file ({error}): copy or train it again"
            ) from error
        if (have := path.stat().st_size) != want:
            raise ConfigError(
                f"{path} is half-written: {have} bytes, its header says {want}. Copy or train it again"
            )


def check_model(model: str) -> Path | None:
    """A local model's folder, found complete; None for a hub id, which only the engine can check."""
    folder = local_folder(model)
    if folder is not None:
        read_config(folder)
        check_weights(folder)
    return folder


def check_draft(target: Path, draft: Path, speculation: Speculation) -> None:
    """The draft was made for this target: same vocabulary and, for a head, same hidden size."""
    want, config = read_config(target), read_config(draft)
    have = config.get("transformer_layer_config", config)  # speculators nests it
    keys = ["vocab_size"] if speculation.method == "draft_model" else ["vocab_size", "hidden_size"]
    for key in keys:
        theirs = config.get("target_hidden_size") or have.get(key) if key == "hidden_size" else have.get(key)
        if None not in (theirs, want.get(key)) and theirs != want[key]:
            raise ConfigError(
                f"draft {draft.name} has {key} {theirs}, target {target.name} has {want[key]}: "
                f"use a draft that was trained for this target, or train one"
            )


def check(target: Target, speculation: Speculation | None) -> None:
    """All checks of one server's models.

    Raises:
        ConfigError: naming the value that is wrong and how to mend it.
    """
    folder = check_model(target.model)
    if speculation is None:
        return
    k, limit = speculation.num_speculative_tokens, min(MAX_NUM_SPECULATIVE_TOKENS, target.max_model_len - 1)
    if k > limit:
        raise ConfigError(
            f"num_speculative_tokens {k} exceeds {limit}, the most that max_model_len and vLLM allow"
        )
    draft = check_model(speculation.model) if speculation.model else None
    if folder is not None and draft is not None:
        check_draft(folder, draft, speculation)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_port(port: int) -> None:
    """Raise EngineError if something listens on `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(
                f"port {port} of 127.0.0.1 is taken: stop its server, or give another port"
            ) from error
