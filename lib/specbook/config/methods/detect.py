"""Which method a draft is for, read from its own config.json."""

import json
from pathlib import Path

from specbook.config.methods.base import Checkpoint, Method, known
from specbook.errors import ConfigError


def method(model: str, folder: Path) -> type[Method]:
    """The most special method that knows this draft as one of its own.

    Args:
        model: folder or hub id, as the plan names it.
        folder: where it lies if it is a folder.

    Raises:
        ConfigError: if its config.json cannot be read, or fits no method.
    """
    draft = Checkpoint(model, _config(model, folder))
    found = [each for each in known() if each.recognises(draft)]
    if not found:
        raise ConfigError(
            f"draft {model}: its architecture {', '.join(draft.architectures) or 'is not named, which'} fits "
            f"no method here ({', '.join(sorted({each.name for each in known()}))}): name it, METHOD:{model}"
        )
    return max(found, key=lambda each: len(each.__mro__))


def _config(model: str, folder: Path) -> dict:
    try:
        file = folder / "config.json" if folder.is_dir() else _from_hub(model)
        found = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"draft {model}: its config.json cannot be read ({error}): no draft?") from error
    if not isinstance(found, dict):
        raise ConfigError(f"draft {model}: its config.json holds {type(found).__name__}, want a mapping")
    return found


def _from_hub(model: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model, "config.json"))
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise ConfigError(
            f"draft {model} is no folder here, and the hub does not give its config.json "
            f"({type(error).__name__}): name its method, such as eagle3:{model}"
        ) from error
