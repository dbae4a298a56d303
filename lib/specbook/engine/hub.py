"""Whether a model is on the hub, before an engine is started: that would take a minute to find out."""

from specbook.config import checkpoint
from specbook.errors import ConfigError

TIMEOUT_S = 10


def check(model: str, revision: str | None) -> None:
    """A hub id is in the hub's cache on this machine, or the hub knows it.

    Raises:
        ConfigError: if neither is so, or the hub does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    named = f"{model}@{revision}" if revision else model
    try:
        if checkpoint.cached(model, revision):
            return
        HfApi().model_info(model, revision=revision, timeout=TIMEOUT_S)
    except RevisionNotFoundError as error:
        raise ConfigError(
            f"the hub has no revision {revision!r} of {model}: fix `revision`, the commit of its repository"
        ) from error
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise ConfigError(
            f"{named} is no folder here, and no model of the hub that you may read: fix `model`"
        ) from error
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise ConfigError(
            f"{named} is no folder here and not in the hub's cache, and the hub does not answer "
            f"({type(error).__name__}): fix `model`, or download it first"
        ) from error
