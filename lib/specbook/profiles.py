"""Named servers: `params/<hardware>/profiles.yaml`, chosen as `<hardware>/<name>`."""

from pydantic import ValidationError

from specbook import paths
from specbook.config import Frozen, Speculation, Target
from specbook.errors import ConfigError
from specbook.mistakes import explain, near
from specbook.plan import read_file


class Profile(Frozen):
    """A server to start, and what its hour costs."""

    target: Target
    speculation: Speculation | None = None
    price: str | None = None
    """Entry of `params/prices.yaml`; None when no list price fits this machine."""


def load(name: str) -> Profile:
    """The profile called `<hardware>/<name>`, e.g. `cpu/eagle3`.

    Raises:
        ConfigError: if there is none, naming the near match.
    """
    hardware, _, short = name.partition("/")
    folders = {path.parent.name for path in paths.params_dir().glob("*/profiles.yaml")}
    if hardware not in folders:
        raise ConfigError(f"no profile {name!r}: no hardware {hardware!r}{near(hardware, folders)}")
    body = read_file(paths.params_dir() / hardware / "profiles.yaml")
    if short not in body:
        raise ConfigError(f"no profile {name!r}{near(name, [f'{hardware}/{key}' for key in body])}")
    try:
        return Profile.model_validate(body[short])
    except ValidationError as error:
        raise ConfigError(f"profile {name}: {explain(error, Profile)}") from error
