"""What would make an engine fail after half a minute, found in a millisecond before it is started."""

import os.path
import socket
from pathlib import Path

from safetensors import SafetensorError, safe_open

from specbook import paths
from specbook.config import checkpoint
from specbook.config.checkpoint import Checkpoint, read_config, read_json
from specbook.config.schema import Speculation, Target, resolve_model
from specbook.engine import hub
from specbook.errors import ConfigError, EngineError


def models(target: Target, speculation: Speculation | None) -> list[str]:
    """What a server loads: folders or hub ids."""
    return [target.model, *([speculation.model] if speculation and speculation.model else [])]


def local_folder(model: str) -> Path | None:
    """The model's folder; None for a hub id.

    Raises:
        ConfigError: if `model` can only be a folder, and it is missing.
    """
    folder, place = Path(resolve_model(model)), paths.root() / model
    if os.path.isdir(folder):  # False, and no error, for a name too long to be one
        return folder
    made = paths.build_dir() in place.parents
    beside_others = place.parent != paths.root() and os.path.isdir(place.parent)
    if made or beside_others or model.startswith(("/", ".", "~")):
        fix = "`specbook run` makes it of what models/ ships" if made else "run `specbook train`"
        raise ConfigError(f"model folder {model} does not exist: {fix}, or fix `model`")
    return None


def _indexed(index: Path) -> set[str]:
    """The files that an index names."""
    try:
        return set(read_json(index)["weight_map"].values())
    except (LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{index} has no weight_map of names: copy or train the model again") from error


def check_weights(folder: Path) -> None:
    """Every safetensors file is complete, and none that the index names is missing."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    named = _indexed(index) if index.is_file() else set()
    if missing := sorted(named - {f.name for f in files}) or ([] if files else ["model.safetensors"]):
        raise ConfigError(f"{folder} lacks {missing[0]}: copy or train the model again")
    for path in files:
        if not path.is_file():
            raise ConfigError(f"{path} is a folder, or a link to nothing: copy or train the model again")
        try:
            with safe_open(path, framework="numpy"):  # compares the header with the file's length
                pass
        except (SafetensorError, OSError) as error:
            reason = str(error).removeprefix("Error while deserializing header: ")
            raise ConfigError(
                f"{path} is half-written or no safetensors file ({reason}): copy or train it again"
            ) from error


def check_model(model: str, revision: str | None, weights: bool = True) -> Path | None:
    """A local model's folder, found complete; None for a hub id that the hub or its cache knows.

    Without `weights` its shape is enough.
    """
    folder = local_folder(model)
    if folder is None:
        hub.check(model, revision)
        return None
    read_config(folder)
    if weights:
        check_weights(folder)
    return folder


def check_experts(folder: Path) -> None:
    """Raise ConfigError if a token of this model would take more experts than it has."""
    config = read_config(folder)
    experts = config.get("num_experts") or config.get("num_local_experts")
    taken = config.get("num_experts_per_tok")
    if isinstance(experts, int) and isinstance(taken, int) and taken > experts:
        raise ConfigError(
            f"{folder / 'config.json'}: num_experts_per_tok {taken} exceeds num_experts {experts}: a token "
            "cannot take more experts than there are"
        )


def check(target: Target, speculation: Speculation | None) -> None:
    """All checks of one server's models.

    Raises:
        ConfigError: naming the value that is wrong and how to fix it.
    """
    real = target.load_format != "dummy"
    folder = check_model(target.model, target.revision, real)
    if folder is not None:
        check_experts(folder)
    if speculation is None:
        return
    speculation.drafting.check_installed()
    k, limit = speculation.num_speculative_tokens, target.max_model_len - 1
    if k > limit:
        raise ConfigError(f"num_speculative_tokens {k} exceeds {limit}, the most that max_model_len allows")
    draft = check_model(speculation.model, speculation.revision, real) if speculation.model else None
    if folder is not None and draft is not None:
        speculation.drafting.check_draft(_checkpoint(folder), _checkpoint(draft))


def _checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(folder.name, read_config(folder))


def trained_depth(speculation: Speculation | None) -> int | None:
    """Draft tokens a step that the draft says it was trained to give.

    None where it does not say, cannot be read here, or has its acceptance played.
    """
    if speculation is None or speculation.model is None or speculation.synthetic_acceptance_rates:
        return None
    path: Path | None = Path(resolve_model(speculation.model)) / "config.json"
    if not path.is_file():
        path = checkpoint.cached(speculation.model, speculation.revision)
    try:
        return Checkpoint(speculation.model, read_json(path)).trained_depth if path else None
    except ConfigError:  # `check` says so before it is served
        return None


def past_training(target: Target, speculation: Speculation | None) -> str | None:
    """What to be told before a head drafts deeper than it was trained to; None where it does not."""
    depth = trained_depth(speculation)
    if speculation is None or not speculation.deeper_than(depth):
        return None
    return (
        f"{speculation.label} for {target.name}: {speculation.model} was trained to draft {depth} tokens a "
        f"step, so look at how often those behind are accepted, or lower num_speculative_tokens to {depth}"
    )


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
