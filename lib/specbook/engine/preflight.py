"""What would make an engine fail after half a minute, found in a millisecond before it is started."""

import os.path
import socket
import zipfile
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from specbook import paths
from specbook.config import checkpoint
from specbook.config.checkpoint import Checkpoint, read_config, read_json, weight_files
from specbook.config.schema import Speculation, Target, resolve_model
from specbook.errors import ConfigError, EngineError

LFS, PICKLE, GGUF = b"version https://git-lfs", b"\x80", b"GGUF"
"""How a pointer of Git LFS begins, a PyTorch file from before those were archives, and a GGUF."""
TEMPLATE_FILES = ("tokenizer_config.json", "chat_template.json")
OWN_TEMPLATE = {"--chat-template", "--tokenizer", "--tokenizer-mode"}
"""Arguments with which the engine takes a template from elsewhere."""
NEUTRAL = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
"""Sampling of a generation_config.json, and the values that change nothing."""


def models(target: Target, speculation: Speculation | None) -> list[str]:
    """What a server loads: folders or hub ids."""
    return [target.model, *([speculation.model] if speculation and speculation.model else [])]


def local_folder(model: str) -> Path | None:
    """The model's folder, None for a hub id; ConfigError if it can only be a folder, and is missing."""
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


def _start(path: Path) -> bytes:
    """The first bytes of a file, enough for LFS."""
    try:
        with path.open("rb") as file:
            return file.read(len(LFS))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): make it readable") from error


def check_weights(folder: Path) -> None:
    """Every weight file is complete, and none that the index names is missing."""
    files = weight_files(folder)
    older = bool(files) and files[0].suffix in (".bin", ".pt")
    index = folder / ("pytorch_model.bin.index.json" if older else "model.safetensors.index.json")
    named = _indexed(index) if index.is_file() else set()
    if missing := sorted(named - {f.name for f in files}) or ([] if files else ["model.safetensors"]):
        raise ConfigError(f"{folder} lacks {missing[0]}: copy or train the model again")
    for path in files:
        if not path.is_file():
            raise ConfigError(f"{path} is a folder, or a link to nothing: copy or train the model again")
        start = _start(path)
        if start == LFS:
            raise ConfigError(
                f"{path} is a pointer of Git LFS, not the weights: run `git lfs pull` in {folder}"
            )
        if path.suffix == ".gguf":
            if not start.startswith(GGUF):
                raise ConfigError(f"{path} is no GGUF file: copy or convert it again")
            continue
        if older:
            if not zipfile.is_zipfile(path) and not start.startswith(PICKLE):
                raise ConfigError(f"{path} is half-written or no PyTorch file: copy or train it again")
            continue
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
        checkpoint.check_hub(model, revision)
        return None
    read_config(folder)
    if weights:
        check_weights(folder)
    return folder


def check_experts(folder: Path) -> None:
    """Raise ConfigError if a token of this model would take more experts than it has."""
    config = Checkpoint(folder.name, read_config(folder))
    experts = config.get("num_experts") or config.get("num_local_experts")
    taken = config.get("num_experts_per_tok")
    if isinstance(experts, int) and isinstance(taken, int) and taken > experts:
        raise ConfigError(
            f"{folder / 'config.json'}: num_experts_per_tok {taken} exceeds num_experts {experts}: a token "
            "cannot take more experts than there are"
        )


def check_chat_template(folder: Path, target: Target) -> None:
    """Raise ConfigError if the folder has a tokenizer without the template that makes a prompt of turns.

    A template is `chat_template.jinja`, or the key `chat_template` of one of TEMPLATE_FILES: text, or a list
    or mapping of named ones, of which `default` is taken.
    """
    files = [folder / name for name in TEMPLATE_FILES if (folder / name).is_file()]
    given = {argument.partition("=")[0] for argument in target.extra_args}
    if given & OWN_TEMPLATE or (folder / "chat_template.jinja").is_file():
        return
    if not files and not (folder / "tokenizer.json").is_file():
        return  # no tokenizer of Transformers: the engine has its own, or says what it misses
    templates = [template for path in files if (template := read_json(path).get("chat_template"))]
    if any(_has_default(template) for template in templates):
        return
    why = (
        "none of its chat templates is called `default`"
        if templates
        else "its tokenizer has no chat template"
    )
    raise ConfigError(
        f"{folder}: {why}, so every request would be refused (Bad Request): put the model's template "
        f"into {folder.name}/chat_template.jinja, or give its file, "
        "--set 'target.extra_args=[--chat-template, FILE]'"
    )


def _has_default(template: object) -> bool:
    if isinstance(template, list):
        return any(isinstance(one, Mapping) and one.get("name") == "default" for one in template)
    return "default" in template if isinstance(template, Mapping) else isinstance(template, str)


def overridden_sampling(target: Target, temperature: float) -> str | None:
    """What the model's generation_config.json would sample with, and the plan does not; None for nothing."""
    path = Path(resolve_model(target.model)) / "generation_config.json"
    if not path.is_file():
        return None
    asked = read_json(path)
    other = {name: asked[name] for name in NEUTRAL if asked.get(name) not in (None, NEUTRAL[name])}
    if asked.get("do_sample") is False or not other or other == {"temperature": temperature}:
        return None
    listed = ", ".join(f"{name} {value}" for name, value in other.items())
    how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
    return (
        f"{target.name}: its generation_config.json asks for {listed}; the plan "
        f"overrides that: {how}, nothing else"
    )


def check(target: Target, speculation: Speculation | None) -> None:
    """All checks of one server's models; ConfigError names the value that is wrong and how to fix it."""
    real = target.load_format != "dummy"
    folder = check_model(target.model, target.revision, real)
    if folder is not None:
        check_experts(folder)
        check_chat_template(folder, target)
    if speculation is None:
        return
    speculation.drafting.check_installed()
    k, limit = speculation.num_speculative_tokens, target.max_model_len - 1
    if k > limit:
        raise ConfigError(f"num_speculative_tokens {k} exceeds {limit}, the most that max_model_len allows")
    draft = check_model(speculation.model, speculation.revision, real) if speculation.model else None
    if folder is not None and draft is not None:
        speculation.drafting.check_draft(Checkpoint.of_folder(folder), Checkpoint.of_folder(draft))


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
